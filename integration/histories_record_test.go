package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-4dac0d86/ldapd/integration/isolation"
)

// An event is one operation as its client saw it. It is a step on an object that must
// be linearizable, or a transaction on lists and sets.
type event struct {
	client, session, server int
	generation              int
	call, ret               time.Duration // since the start of the run
	outcome                 isolation.Outcome
	code                    int // the LDAP result code, or -1 if there was no answer

	step   step
	output string

	fresh       bool
	lists, sets []isolation.Read
	appends     []isolation.Append // values appended to lists
	adds        []isolation.Append // values added to sets
}

func (e *event) String() string {
	return fmt.Sprintf("client %d, session %d at server %d: %v -> %q, result %d", e.client, e.session, e.server, e.step, e.output, e.code)
}

// outcomeOf returns whether an update with the given result code was made. If the code is
// other (80), or if there was no answer, the update may have been made. After any other
// error the update has certainly changed nothing.
func outcomeOf(code int) isolation.Outcome {
	switch code {
	case 0:
		return isolation.OK
	case -1, 80:
		return isolation.Unknown
	}
	return isolation.Failed
}

// judge looks for anomalies in all recorded events.
func (r *run) judge() {
	r.t.Helper()
	all := r.events()
	objects, steps := r.judgeObjects(all)
	txns, skews := 0, 0
	for g := range r.generations {
		history := transactions(all, g)
		report := isolation.Check(history)
		for _, a := range report.Anomalies {
			r.t.Errorf("generation %d: %v", g, a)
		}
		txns, skews = txns+len(history), skews+report.Skews
	}
	counts := map[isolation.Outcome]int{}
	for _, e := range all {
		counts[e.outcome]++
	}
	r.t.Logf("%d operations (%d refused or failed, %d of unknown outcome) in %v", len(all), counts[isolation.Failed], counts[isolation.Unknown], r.length)
	r.t.Logf("linearizable: %d histories of %d steps; snapshot isolation: %d histories of %d transactions, %d groups of write skew", objects, steps, r.generations, txns, skews)
}

func (r *run) events() []*event {
	var all []*event
	for _, w := range r.workers {
		all = append(all, w.events...)
	}
	return all
}

// judgeObjects checks every object with porcupine.
func (r *run) judgeObjects(all []*event) (objects, steps int) {
	histories := map[string][]*event{}
	for _, e := range all {
		if e.step != nil && (e.outcome == isolation.OK || e.outcome == isolation.Unknown && !isRead(e.step)) {
			histories[e.step.object()] = append(histories[e.step.object()], e)
			steps++
		}
	}
	for object, events := range histories {
		if result := linearizable(events); result != porcupine.Ok {
			slices.SortFunc(events, func(a, b *event) int { return int(a.call - b.call) })
			var b strings.Builder
			for _, e := range events {
				fmt.Fprintf(&b, "%12v %12v %v\n", e.call, e.ret, e)
			}
			r.t.Errorf("the history of %s: %s\n%s", object, result, b.String())
		}
	}
	return len(histories), steps
}

// An output is what a step returned. If unknown is set, it is unknown whether the step was
// made.
type output struct {
	text    string
	unknown bool
}

func linearizable(events []*event) porcupine.CheckResult {
	model := porcupine.Model{
		Init: func() any { return events[0].step.initial() },
		Step: func(state, input, out any) (bool, any) {
			o := out.(output)
			next, ok := input.(step).next(state.(string), o.text)
			if o.unknown && !ok { // the step was not made
				return true, state
			}
			return ok, next
		},
	}
	var end time.Duration
	for _, e := range events {
		end = max(end, e.ret)
	}
	var history []porcupine.Operation
	for _, e := range events {
		o := porcupine.Operation{ClientId: e.client, Input: e.step, Call: int64(e.call), Output: output{text: e.output}, Return: int64(e.ret)}
		if e.outcome == isolation.Unknown { // the step may be made at any later time
			o.Output, o.Return = output{unknown: true}, int64(end)+1
		}
		history = append(history, o)
	}
	return porcupine.CheckOperationsTimeout(model, history, patience)
}

// transactions returns the transactions of one generation on lists and sets.
func transactions(all []*event, generation int) []isolation.Txn {
	values := map[string][]string{} // the values of each set
	var mine []*event
	for _, e := range all {
		if e.generation != generation || e.step != nil {
			continue
		}
		mine = append(mine, e)
		for _, a := range e.adds {
			values[a.Key] = append(values[a.Key], a.Values...)
		}
	}
	var history []isolation.Txn
	for _, e := range mine {
		x := isolation.Txn{
			Name: fmt.Sprintf("client %d at server %d (result %d)", e.client, e.server, e.code), Session: e.session,
			Invoked: e.call, Returned: e.ret, Outcome: e.outcome, Fresh: e.fresh,
			Reads: slices.Clone(e.lists), Appends: slices.Clone(e.appends),
		}
		for _, s := range e.sets {
			x.Reads = append(x.Reads, isolation.Set(s.Key, values[s.Key], func(v string) bool { return slices.Contains(s.List, v) })...)
		}
		for _, a := range e.adds {
			for _, v := range a.Values {
				x.Appends = append(x.Appends, isolation.Append{Key: isolation.Element(a.Key, v), Values: []string{v}})
			}
		}
		history = append(history, x)
	}
	return history
}

// TestJudges checks that linearizable accepts right histories of objects, and finds the faults
// in wrong ones.
func TestJudges(t *testing.T) {
	e := func(from, to int, s step, output string, code int) *event {
		return &event{call: time.Duration(from), ret: time.Duration(to), step: s, output: output, code: code, outcome: outcomeOf(code)}
	}
	cases := []struct {
		name   string
		events []*event
		want   porcupine.CheckResult
	}{
		{"counted", []*event{e(0, 1, increment("c"), "1", 0), e(0, 3, increment("c"), "", -1), e(4, 5, countRead("c"), "2", 0)}, porcupine.Ok},
		{"lost", []*event{e(0, 1, increment("c"), "1", 0), e(0, 3, increment("c"), "1", 0)}, porcupine.Illegal},
		{"never done", []*event{e(0, 1, increment("c"), "", 80), e(4, 5, countRead("c"), "0", 0)}, porcupine.Ok},
		{"stale", []*event{e(0, 1, increment("c"), "", 0), e(4, 5, countRead("c"), "0", 0)}, porcupine.Illegal},
		{"swapped", []*event{e(0, 1, exchange{"r", "0", "a"}, "", 0), e(2, 3, exchange{"r", "a", "b"}, "", 0), e(4, 5, registerRead("r"), "b", 0)}, porcupine.Ok},
		{"two of one", []*event{e(0, 9, exchange{"r", "0", "a"}, "", 0), e(0, 9, exchange{"r", "0", "b"}, "", 0)}, porcupine.Illegal},
		{"a value once", []*event{e(0, 9, put{"v", true}, "", 0), e(0, 9, put{"v", false}, "", 0), e(10, 11, hasRead("v"), "false", 0)}, porcupine.Ok},
		{"a value twice", []*event{e(0, 9, put{"v", true}, "", 0), e(0, 9, put{"v", true}, "", 0)}, porcupine.Illegal},
		{"a tree", []*event{
			e(0, 1, grow{"t", "a", "1"}, "", 0), e(2, 3, grow{"t", "a/b", "2"}, "", 0),
			e(4, 5, moveTo{"t", "a", "c"}, "", 0), e(6, 7, treeRead("t"), "c 1\nc/b 2", 0),
			e(8, 9, prune{"t", "c/b"}, "", 0), e(10, 11, prune{"t", "c"}, "", 0), e(12, 13, treeRead("t"), "", 0),
		}, porcupine.Ok},
		{"one name twice", []*event{e(0, 9, grow{"t", "a", "1"}, "", 0), e(0, 9, grow{"t", "a", "2"}, "", 0)}, porcupine.Illegal},
		{"an orphan", []*event{e(0, 1, grow{"t", "a", "1"}, "", 0), e(2, 9, grow{"t", "a/b", "2"}, "", 0), e(2, 9, prune{"t", "a"}, "", 0)}, porcupine.Illegal},
		{"a circle", []*event{
			e(0, 1, grow{"t", "a", "1"}, "", 0), e(0, 1, grow{"t", "b", "2"}, "", 0),
			e(2, 9, moveTo{"t", "a", "b/a"}, "", 0), e(2, 9, moveTo{"t", "b", "a/b"}, "", 0),
		}, porcupine.Illegal},
		{"below itself", []*event{e(0, 1, grow{"t", "a", "1"}, "", 0), e(2, 9, moveTo{"t", "a", "a/b"}, "", 0)}, porcupine.Illegal},
	}
	for _, c := range cases {
		if got := linearizable(c.events); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
