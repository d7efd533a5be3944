package config

import "fmt"

// maxName bounds a name in bytes: names stand in every row and every table.
const maxName = 100

// CheckName says what is wrong with the name of a job, a lane or a pool; nil
// when nothing is. Names become parts of file names, environment variables
// and labels, hence so few characters, and a first one that makes a name
// neither an option nor a hidden file nor "..".
func CheckName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("a name can't be empty")
	case len(s) > maxName:
		return fmt.Errorf("a name of %d bytes is too long: at most %d", len(s), maxName)
	case s[0] == '-' || s[0] == '.':
		return fmt.Errorf("%s is no name: it must begin with a letter, a digit or _", show(s))
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return fmt.Errorf("%s is no name: only letters (a to z), digits and _-. make one", show(s))
		}
	}
	return nil
}
