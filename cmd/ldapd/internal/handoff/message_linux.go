package handoff

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

// maxMessage is the largest size of a message. A message is large if it contains the
// definitions of all schema files of a folder.
const maxMessage = 64 << 20

// maxFiles is the largest number of files attached to a message.
const maxFiles = 2

// send sends a message, with files attached to its first octets.
func send(c *net.UnixConn, v any, files ...*os.File) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	rights, err := rightsTo(files)
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	n, _, err := c.WriteMsgUnix(head, rights, nil)
	runtime.KeepAlive(files)
	if err == nil && n < len(head) {
		err = io.ErrShortWrite
	}
	if err == nil {
		_, err = c.Write(text)
	}
	return err
}

// rightsTo returns the control message that passes files. It reads the descriptors
// without os.File.Fd, which would make them blocking.
func rightsTo(files []*os.File) ([]byte, error) {
	if len(files) == 0 {
		return nil, nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return nil, err
		}
	}
	return syscall.UnixRights(fds...), nil
}

// receive receives a message and its files. The caller must close the files, even after
// an error.
func receive(c *net.UnixConn, v any) (files []*os.File, err error) {
	head := make([]byte, 4)
	rights := make([]byte, syscall.CmsgSpace(4*maxFiles))
	for got := 0; got < len(head); {
		n, m, _, _, err := c.ReadMsgUnix(head[got:], rights)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return files, err
		}
		more, err := filesOf(rights[:m])
		files = append(files, more...)
		if err != nil {
			return files, err
		}
		got += n
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxMessage {
		return files, fmt.Errorf("a message of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c, text); err != nil {
		return files, err
	}
	return files, json.Unmarshal(text, v)
}

// filesOf opens the files in a control message.
func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	for i := range messages {
		fds, e := syscall.ParseUnixRights(&messages[i])
		err = errors.Join(err, e)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "a tool's file"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
