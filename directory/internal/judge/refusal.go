package judge

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
)

// A Refusal records what the access rules refused to a request.
type Refusal struct {
	decision *acl.Decision
	question acl.Question
	program  *acl.Program // set if the use of an OID was refused
	use      string
}

// NoteIn sets where refusals are recorded, for the access log.
func (j *Judge) NoteIn(r *Refusal) { j.refusal = r }

// Refuse returns ErrAccess and records what the decision does not allow.
func (j *Judge) Refuse(d *acl.Decision, q acl.Question) error {
	if j.refusal != nil {
		*j.refusal = Refusal{decision: d, question: q}
	}
	return ErrAccess
}

// RefuseUse returns ErrAccess and records the refused control or extended operation.
func (j *Judge) RefuseUse(oid string) error {
	if j.refusal != nil {
		*j.refusal = Refusal{program: j.program, use: oid}
	}
	return ErrAccess
}

// String returns the rules that denied the request. If no rule denied the request, it
// returns a text that says that no rule allows the request. If nothing was refused, it
// returns "".
func (r *Refusal) String() string {
	var denials []string
	what := ""
	switch {
	case r.program != nil:
		denials, what = r.program.DenyUse(r.use), acl.Use.String()+" "+r.use
	case r.decision != nil:
		denials, what = r.decision.Denials(r.question), r.question.String()
	default:
		return ""
	}
	if len(denials) > 0 {
		return strings.Join(denials, ", ")
	}
	return "no rule allows " + what
}
