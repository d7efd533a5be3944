package jobs

// Nearest returns the known word with the fewest edits from word, if that is
// at most a third of the letters (more would suggest what nobody meant); else "".
func Nearest(word string, known []string) string {
	const longest = 100 // no name is longer; a pasted text is not compared
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

// distance counts the edits between a and b: bytes put in, taken out or
// changed, and neighbours swapped (the optimal string alignment distance).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
