// Package handoff lets tools work on a store while a server has it open. One
// process can have an embedded store, so the server does the work: it listens on
// a private Unix socket in the store's folder ([Listen]), and a tool that finds
// the folder locked hands over what is to be done ([Ask]): the name of the work,
// its arguments, and where its output goes. Both run the same functions.
//
// The server trusts only its own user and root, by what the kernel says of the
// peer. The tool gives the server no file but those that it decides to open when
// it is asked for one: its own rights count, and its own folder.
//
// # Protocol
//
// Messages are JSON behind four octets of length, most significant first. Open
// files come with the length, as SCM_RIGHTS.
//
//	tool                              server
//	request, stdout and stderr   ->
//	                             <-   question: open or create a file
//	answer, the file             ->                      (any number of these)
//	                             <-   question: end, with what failed
//
// When the tool shuts its side down, or is gone, the work is cancelled. Standard
// output and error, and files that are not regular, are pipes of the tool's own
// making: the server can give up waiting on them, and nothing that it does to
// them touches the user's terminal.
package handoff

import (
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Name is the socket's in the folder.
const Name = "ldapd.sock"

// Stdin is the name of the tool's standard input as a file.
const Stdin = "-"

// ErrNobody: no server answers in the folder.
var ErrNobody = errors.New("no server answers in the folder")

// A Failure is how work that the server did ended, as far as a tool can know.
type Failure struct {
	Text  string `json:"text"`
	Usage bool   `json:"usage,omitempty"` // it is the arguments' fault
}

func (f *Failure) Error() string { return f.Text }

// A Request is work that a tool asks for.
type Request struct {
	Work           string
	Args           any // as JSON
	Terminal       bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Open and Create open files that the work wants to read and to write; nil:
	// there are none. They decide which ones it may have.
	Open, Create func(name string) (*os.File, error)
}

// request is what is sent of a Request.
type request struct {
	Work     string          `json:"work"`
	Args     json.RawMessage `json:"args"`
	Terminal bool            `json:"terminal,omitempty"` // Stderr is one
}

// question is what the server says to the tool: one of the three.
type question struct {
	Open    string   `json:"open,omitempty"`
	Create  string   `json:"create,omitempty"`
	End     bool     `json:"end,omitempty"`
	Failure *Failure `json:"failure,omitempty"` // with End; nil: the work is done
}

// answer comes with the file, or says why it does not.
type answer struct {
	Error string `json:"error,omitempty"`
}
