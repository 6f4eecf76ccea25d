// Package handoff lets tools work on a store while a server has it open. Only one
// process can open an embedded store, so the server does the work. It listens on a
// private Unix socket in the store's folder ([Listen]). A tool that finds the folder
// locked hands its work over ([Ask]): the name of the work, its arguments, and the
// destination of its output. Both run the same functions.
//
// The server trusts only its own user and root, as the kernel reports the peer. The
// tool passes files only when it is asked for one and decides to open it. So the tool's
// permissions and its current folder apply.
//
// # Protocol
//
// Messages are JSON preceded by four octets of length, most significant first. Open
// files are sent with the length, as SCM_RIGHTS.
//
//	tool                              server
//	request, stdout and stderr   ->
//	                             <-   question: open or create a file
//	answer, the file             ->                      (any number of these)
//	                             <-   question: end, with what failed
//
// If the tool shuts its side down, or is gone, the work is cancelled. The tool makes
// pipes for standard output and error, and for files that are not regular. So the
// server can stop waiting for them, and nothing that it does to them affects the user's
// terminal.
package handoff

import (
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Name is the name of the socket in the folder.
const Name = "ldapd.sock"

// Stdin is the file name of the tool's standard input.
const Stdin = "-"

// ErrNobody: no server answers in the folder.
var ErrNobody = errors.New("no server answers in the folder")

// A Failure is the error of work done by the server, as a tool sees it.
type Failure struct {
	Text  string `json:"text"`
	Usage bool   `json:"usage,omitempty"` // the arguments are wrong
}

func (f *Failure) Error() string { return f.Text }

// A Request is work that a tool asks for.
type Request struct {
	Work           string
	Args           any // sent as JSON
	Terminal       bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Open and Create open the files that the work wants to read and to write, and
	// decide which ones it may have. Nil means none.
	Open, Create func(name string) (*os.File, error)
}

// A request is the part of a Request that is sent.
type request struct {
	Work     string          `json:"work"`
	Args     json.RawMessage `json:"args"`
	Terminal bool            `json:"terminal,omitempty"` // Stderr is a terminal
}

// A question is a message of the server to the tool: one of the three.
type question struct {
	Open    string   `json:"open,omitempty"`
	Create  string   `json:"create,omitempty"`
	End     bool     `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"` // with End; nil: the work succeeded
}

// An answer comes with the file, or has the reason why not.
type answer struct {
	Error string `json:"error,omitempty"`
}
