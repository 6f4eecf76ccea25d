package judge

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
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

// Refuse returns ErrAccess and records what the decision does not allow. If the requester has
// the right to explain the rights on the entry, the error names the rules.
func (j *Judge) Refuse(d *acl.Decision, q acl.Question) error {
	return j.refuse(&Refusal{decision: d, question: q}, d, ErrAccess.Diagnostic)
}

// RefuseUse returns an error and records the refused control or extended operation. what names
// it for the client.
func (j *Judge) RefuseUse(oid, what string) error {
	return j.refuse(&Refusal{program: j.program, use: oid}, j.Everywhere(), "the access rules do not allow the use of "+what)
}

func (j *Judge) refuse(r *Refusal, d *acl.Decision, text string) error {
	if j.refusal != nil {
		*j.refusal = *r
	}
	if d != nil && d.Entry(acl.Explain) {
		text += ": " + r.String()
	} else if r.program == nil {
		return ErrAccess
	}
	return op.Errorf(op.InsufficientAccessRights, "%s", text)
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
