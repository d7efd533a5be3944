package cmd

// nearest returns the known word with the fewest edits from word, if those
// are few enough for it to be what was meant; else "".
func nearest(word string, known []string) string {
	const longest = 40 // no word of ours is longer; a pasted text is not compared
	if len(word) > longest {
		return ""
	}
	best, edits := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < edits && d < len(k) {
			best, edits = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
