// Package model explores models of the commit protocol (docs/design/transactions.md)
// state by state. A [Model] says what may happen next and what must never be;
// Explore visits every state that can be reached, breadth first, so that what it
// finds wrong it reaches by the shortest way.
//
// The models themselves are the tests of this package: docs/design/models.md
// says what each of them covers.
package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Model is a system whose states are S.
type Model[S comparable] struct {
	Init S
	// Next gives every state that may follow s, each by a call of emit.
	Next func(s S, emit Emit[S])
	// Check says what is wrong with a state, or nothing.
	Check func(s *S) string
}

// Emit takes one step: what happens, as a format for a and b, and the state after.
type Emit[S comparable] func(next S, what string, a, b int)

// A Report is what an exploration came to.
type Report struct {
	States int
	Whole  bool   // there are no more
	Wrong  string // of the first state that is
	Trace  []string
}

// Explore visits states until one is wrong, there are no more, or there are more
// than limit. States are told apart by 64 bits of a hash.
func (m Model[S]) Explore(limit int) Report {
	seed := maphash.MakeSeed()
	known := map[uint64]struct{}{maphash.Comparable(seed, m.Init): {}}
	states, from := []S{m.Init}, []int32{-1}
	for at := 0; at < len(states); at++ {
		if wrong := m.Check(&states[at]); wrong != "" {
			return Report{States: len(states), Wrong: wrong, Trace: m.trace(states, from, at)}
		}
		if len(states) > limit {
			return Report{States: len(states)}
		}
		m.Next(states[at], func(next S, _ string, _, _ int) {
			h := maphash.Comparable(seed, next)
			if _, ok := known[h]; !ok {
				known[h] = struct{}{}
				states, from = append(states, next), append(from, int32(at))
			}
		})
	}
	return Report{States: len(states), Whole: true}
}

// trace names the steps that led to a state.
func (m Model[S]) trace(states []S, from []int32, at int) (steps []string) {
	for ; from[at] >= 0; at = int(from[at]) {
		found := ""
		m.Next(states[from[at]], func(next S, what string, a, b int) {
			if found == "" && next == states[at] {
				found = fmt.Sprintf(what, []any{a, b}[:min(2, strings.Count(what, "%"))]...)
			}
		})
		steps = append(steps, found)
	}
	slices.Reverse(steps)
	return steps
}
