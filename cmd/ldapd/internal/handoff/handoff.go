// Package handoff lets tools work on a store while a server has it open. Only one
// process can open an embedded store, so the server does a tool's work. The server
// listens on a private Unix socket in the store's folder ([Listen]). A tool that finds
// the folder locked sends its work to the server ([Ask]): the name of the work, its
// arguments, and the destination of its output. The server calls the functions that the
// tool would have called.
//
// The server trusts only its own user and root. It learns from the kernel which user runs a
// tool's process. A tool passes a file to the server only if the server asked for the file and
// the tool decided to open it. So the tool's permissions and its current folder apply.
//
// # Protocol
//
// Messages are JSON preceded by four octets of length, most significant first. Open files
// are attached to the octets of the length, as SCM_RIGHTS.
//
//	tool                              server
//	request, stdout and stderr   ->
//	                             <-   question: open or create a file
//	answer, the file             ->                      (any number of these)
//	                             <-   question: end, with what failed
//
// If the tool ends, or shuts down its side of the connection, the server cancels the
// work. The tool makes pipes for standard output and error, and for files to read that are not
// regular. So the server can stop waiting for a pipe, and nothing that the server does to a pipe
// affects the user's terminal.
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

// ErrNobody means that no server answers in the folder.
var ErrNobody = errors.New("no server answers in the folder")

// A Failure is the error of work that a server did for a tool.
type Failure struct {
	Text  string `json:"text"`
	Usage bool   `json:"usage,omitempty"` // the arguments are wrong
}

func (f *Failure) Error() string { return f.Text }

// A Request is the work that a tool wants a server to do.
type Request struct {
	Work           string
	Args           any // sent as JSON
	Terminal       bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Open and Create open the files that the work wants to read and to write. They return an
	// error for a file that the work is not allowed to use. A nil function allows no file.
	Open, Create func(name string) (*os.File, error)
}

// A request is the part of a Request that is sent.
type request struct {
	Work     string          `json:"work"`
	Args     json.RawMessage `json:"args"`
	Terminal bool            `json:"terminal,omitempty"` // Stderr is a terminal
}

// A question is a message of the server to the tool. Open, Create or End is set.
type question struct {
	Open    string   `json:"open,omitempty"`
	Create  string   `json:"create,omitempty"`
	End     bool     `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"` // only with End; nil: the work succeeded
}

// An answer is sent with the file, or contains the reason why there is no file.
type answer struct {
	Error string `json:"error,omitempty"`
}
