package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// NewPassword asks for a new password twice, or reads it from the first line of standard input if
// that is no terminal.
func (m *Main) NewPassword() (string, error) {
	if !m.Interactive() {
		line, err := bufio.NewReader(m.Stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	first, err := m.AskHidden("New password: ")
	if err != nil {
		return "", err
	}
	second, err := m.AskHidden("Once more: ")
	if err == nil && first != second {
		err = errors.New("these were two different passwords")
	}
	return first, err
}

// Interactive reports whether somebody can be asked: whether standard input is a terminal.
func (m *Main) Interactive() bool {
	f, ok := m.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// AskHidden asks at the terminal, and does not show what is typed.
func (m *Main) AskHidden(prompt string) (string, error) {
	fmt.Fprint(m.Stderr, prompt)
	b, err := term.ReadPassword(int(m.Stdin.(*os.File).Fd()))
	fmt.Fprintln(m.Stderr)
	return string(b), err
}
