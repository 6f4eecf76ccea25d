package hasher

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// A question is a Job on its way to the process. Its answer has the same number. Questions and
// answers are sent as JSON values, one after the other. net/rpc is not used, because it finds
// methods by their names. The linker would then keep methods that nobody calls. These methods
// take seven megabytes.
type question struct {
	Number uint64
	Job    Job
}

type answer struct {
	Number  uint64
	Outcome Outcome
}

// A caller sends Jobs to the process and waits for their outcomes. Any number of
// goroutines can call it.
type caller struct {
	sending sync.Mutex
	to      io.WriteCloser
	encoder *json.Encoder

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan<- Outcome // nil if the process no longer answers
}

func newCaller(from io.Reader, to io.WriteCloser) *caller {
	c := &caller{to: to, encoder: json.NewEncoder(to), waiting: map[uint64]chan<- Outcome{}}
	go c.receive(json.NewDecoder(from))
	return c
}

var errSilent = errors.New("it answers no more")

// call returns the outcome of j, or an error if the process has ended.
func (c *caller) call(j Job) (Outcome, error) {
	outcome := make(chan Outcome, 1)
	number, ok := c.expect(outcome)
	if !ok {
		return Outcome{}, errSilent
	}
	c.sending.Lock()
	err := c.encoder.Encode(question{number, j})
	c.sending.Unlock()
	if err != nil {
		c.silence() // part of a question may have been sent
		return Outcome{}, err
	}
	o, ok := <-outcome
	if !ok {
		return Outcome{}, errSilent
	}
	return o, nil
}

// expect returns the number of a new question. The outcome of that question will be sent
// to ch. ok is false if the process no longer answers.
func (c *caller) expect(ch chan<- Outcome) (number uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return 0, false
	}
	c.next++
	c.waiting[c.next] = ch
	return c.next, true
}

func (c *caller) receive(d *json.Decoder) {
	defer c.silence()
	for {
		var a answer
		if err := d.Decode(&a); err != nil {
			return
		}
		c.mu.Lock()
		ch := c.waiting[a.Number]
		delete(c.waiting, a.Number)
		c.mu.Unlock()
		if ch != nil {
			ch <- a.Outcome
		}
	}
}

// silence makes all running and later calls return an error.
func (c *caller) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waiting {
		close(ch)
	}
	c.waiting = nil
}

// serve reads Jobs from the stream in until the stream ends. It does the Jobs concurrently.
func serve(in io.Reader, out io.Writer) error {
	var sending sync.Mutex
	var running sync.WaitGroup
	defer running.Wait()
	encoder, decoder := json.NewEncoder(out), json.NewDecoder(in)
	for {
		var q question
		if err := decoder.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		running.Go(func() {
			a := answer{q.Number, do(q.Job)}
			sending.Lock()
			defer sending.Unlock()
			encoder.Encode(a) // error ignored: it means that the server has died, and then the input ends too
		})
	}
}
