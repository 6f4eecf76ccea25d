package acl

import "errors"

// A node is a Boolean function, represented as a binary decision diagram (Bryant 1986).
// In one diagram, equal functions have equal nodes.
type node int32

const (
	falseNode node = iota
	trueNode
)

// A diagram contains the nodes of functions that have the same variables.
type diagram struct {
	nodes  []branch
	unique map[branch]node
	memo   map[[3]node]node
	failed error
}

// A branch represents a function by the function's first variable and two further
// functions: low, which remains if this variable is false, and high, which remains if it
// is true.
type branch struct {
	variable int32
	low      node // the function that remains if the variable is false
	high     node
}

// errTooComplex reports that a diagram would use too much memory.
var errTooComplex = errors.New("the rules are too complex to be compared")

// maxNodes limits a diagram to a few hundred megabytes.
const maxNodes = 4 << 20

// noVariable is the variable of the constant functions. It sorts after all variables.
const noVariable = 1<<31 - 1

func newDiagram() *diagram {
	return &diagram{
		nodes:  []branch{{variable: noVariable}, {variable: noVariable}},
		unique: map[branch]node{}, memo: map[[3]node]node{},
	}
}

func (d *diagram) make(v int32, low, high node) node {
	if low == high {
		return low
	}
	b := branch{v, low, high}
	n, ok := d.unique[b]
	if !ok {
		if len(d.nodes) >= maxNodes {
			d.failed = errTooComplex
			return falseNode
		}
		n = node(len(d.nodes))
		d.nodes, d.unique[b] = append(d.nodes, b), n
	}
	return n
}

// The method "is" returns the function that equals the variable v.
func (d *diagram) is(v int) node { return d.make(int32(v), falseNode, trueNode) }

func (d *diagram) not(f node) node         { return d.ifElse(f, falseNode, trueNode) }
func (d *diagram) and(f, g node) node      { return d.ifElse(f, g, falseNode) }
func (d *diagram) or(f, g node) node       { return d.ifElse(f, trueNode, g) }
func (d *diagram) butNot(f, g node) node   { return d.ifElse(g, falseNode, f) }
func (d *diagram) implies(f, g node) node  { return d.ifElse(f, g, trueNode) }
func (d *diagram) excludes(f, g node) node { return d.not(d.and(f, g)) }

// ifElse returns the function that equals g where f is true and equals h where f is
// false.
func (d *diagram) ifElse(f, g, h node) node {
	switch {
	case f == trueNode || g == h:
		return g
	case f == falseNode:
		return h
	case g == trueNode && h == falseNode:
		return f
	}
	key := [3]node{f, g, h}
	if n, ok := d.memo[key]; ok {
		return n
	}
	v := min(d.nodes[f].variable, d.nodes[g].variable, d.nodes[h].variable)
	low := d.ifElse(d.at(f, v, false), d.at(g, v, false), d.at(h, v, false))
	high := d.ifElse(d.at(f, v, true), d.at(g, v, true), d.at(h, v, true))
	n := d.make(v, low, high)
	d.memo[key] = n
	return n
}

// The method "at" returns the function that results from f if variable v has the given value. f
// must not depend on variables before v.
func (d *diagram) at(f node, v int32, value bool) node {
	b := d.nodes[f]
	switch {
	case b.variable != v:
		return f
	case value:
		return b.high
	}
	return b.low
}

// depends returns the variables that f depends on.
func (d *diagram) depends(f node) map[int]bool {
	seen, on := map[node]bool{}, map[int]bool{}
	var walk func(node)
	walk = func(f node) {
		if f <= trueNode || seen[f] {
			return
		}
		seen[f] = true
		on[int(d.nodes[f].variable)] = true
		walk(d.nodes[f].low)
		walk(d.nodes[f].high)
	}
	walk(f)
	return on
}

// A cube is a conjunction of variables. If a variable maps to false, the conjunction contains
// the negation of the variable.
type cube map[int]bool

// maxCubes is the maximum number of conjunctions in the printed form of a function.
const maxCubes = 10000

// cubes returns conjunctions, none of them redundant. Their disjunction is true wherever
// lower is true, and false wherever upper is false (Minato and Morreale 1993).
func (d *diagram) cubes(lower, upper node) (all []cube) {
	all, _ = d.cover(lower, upper)
	return all
}

func (d *diagram) cover(least, most node) (all []cube, f node) {
	switch {
	case least == falseNode || d.failed != nil:
		return nil, falseNode
	case most == trueNode:
		return []cube{{}}, trueNode
	}
	v := min(d.nodes[least].variable, d.nodes[most].variable)
	least0, least1 := d.at(least, v, false), d.at(least, v, true)
	most0, most1 := d.at(most, v, false), d.at(most, v, true)
	all0, f0 := d.cover(d.butNot(least0, most1), most0)
	all1, f1 := d.cover(d.butNot(least1, most0), most1)
	rest := d.or(d.butNot(least0, f0), d.butNot(least1, f1))
	all, both := d.cover(rest, d.and(most0, most1))
	for _, c := range all0 {
		c[int(v)] = false
		all = append(all, c)
	}
	for _, c := range all1 {
		c[int(v)] = true
		all = append(all, c)
	}
	if len(all) > maxCubes {
		d.failed = errTooComplex
	}
	return all, d.or(both, d.make(v, f0, f1))
}
