package jobs

import "fmt"

// Count is how many there are of something, in words: "1 item", "3 items".
func Count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
