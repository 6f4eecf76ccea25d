package hasher

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"time"
)

// grace is how long a hash may go on after its context has ended. Most hashes end within it, and
// then their process need not be started again.
const grace = 250 * time.Millisecond

// A helper is one process. It does one Job at a time, so that the process of a hash that nobody
// waits for can be ended: a hash itself cannot be interrupted. Jobs and outcomes are sent as JSON
// values, one after the other. net/rpc is not used, because it finds methods by their names. The
// linker would then keep methods that nobody calls. These methods take seven megabytes.
type helper struct {
	cmd     *exec.Cmd
	to      io.Closer
	encoder *json.Encoder
	decoder *json.Decoder
}

func start(cmd *exec.Cmd) (*helper, error) {
	apart(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &helper{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// call returns the outcome of j. It returns an error if the process has died, or if ctx ended and
// the process did not answer soon after that. The caller must then call end.
func (h *helper) call(ctx context.Context, j Job) (Outcome, error) {
	type result struct {
		Outcome
		err error
	}
	answered := make(chan result, 1)
	go func() {
		var r result
		if r.err = h.encoder.Encode(j); r.err == nil {
			r.err = h.decoder.Decode(&r.Outcome)
		}
		answered <- r
	}()
	select {
	case r := <-answered:
		return r.Outcome, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-answered:
		return r.Outcome, r.err
	case <-time.After(grace):
		return Outcome{}, context.Cause(ctx)
	}
}

// end ends the process. Callers may call it concurrently with call.
func (h *helper) end() {
	h.to.Close()
	h.cmd.Process.Kill()
}

// serve reads Jobs from the stream in, and does them, until the stream ends. It does not wait for
// a Job that is in progress when the stream ends, because nobody waits for the outcome.
func serve(in io.Reader, out io.Writer) error {
	encoder, decoder := json.NewEncoder(out), json.NewDecoder(in)
	for {
		var j Job
		if err := decoder.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		// The stream is read during the Job, to notice its end. The next Job comes only after
		// the outcome of this one.
		go func() {
			encoder.Encode(do(j)) // error ignored: it means that the server has died, and then the input ends too
		}()
	}
}
