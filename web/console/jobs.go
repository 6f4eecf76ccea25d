package console

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A jobsPage is the data of the page of jobs.
type jobsPage struct {
	Offered []*offeredJob
	Running []*Entry // the newest first
	Ended   []*Entry
	One     *Entry // whose output is shown
	Error   string
}

// An offeredJob is a job that can be started.
type offeredJob struct {
	Name, Usage, Arguments string // Usage: of its arguments; Arguments: what was typed
}

// About returns what the job does.
func (o *offeredJob) About() string {
	return map[string]string{
		"backup": "writes to the archive now; with --base, all of the store", "check": "verifies that entries, indexes and references fit together",
		"checkpoint": "keeps the present state under a name", "gc": "removes versions that are older than the kept past",
		"reindex": "makes, drops and rebuilds indexes", "upgrade": "brings the store to the form of this version", "view": "makes the records of a view again",
	}[o.Name]
}

func jobNumber(e *Entry) int {
	n, _ := strconv.Atoi(e.First("cn")) // 0: no job has this number
	return n
}

// Operating are the pages for whoever runs the server.
func (p *place) Operating() []struct{ Name, Path string } {
	return []struct{ Name, Path string }{{"Access", "/access"}, {"Accounts", "/accounts"}, {"Branches", "/branches"}, {"Views", "/views"},
		{"Operations", "/operations"}, {"Jobs", "/jobs"}, {"Servers", "/servers"}, {"Store", "/store"}}
}

// Clock returns a Generalized Time as people write it.
func (p *place) Clock(text string) string {
	t, err := schema.Time([]byte(text))
	if err != nil {
		return ""
	}
	return t.UTC().Format(clock)
}

// Between returns the time from one Generalized Time to another, or to now.
func (p *place) Between(from, to string) string {
	a, err := schema.Time([]byte(from))
	b, err2 := schema.Time([]byte(to))
	if err2 != nil {
		b = time.Now()
	}
	if err != nil {
		return ""
	}
	return b.Sub(a).Round(time.Second / 10).String()
}

// jobs returns the jobs of the server.
func (v *visit) jobs() (*jobsPage, error) {
	p := &jobsPage{}
	f, err := v.searchN(&op.Search{Base: "cn=Jobs,cn=monitor", Scope: op.SingleLevel, Filter: filter.EqualTo("objectClass", "monitorJob"), Attributes: []string{"*"}}, rows, "")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(f.Entries, func(a, b *Entry) int { return jobNumber(b) - jobNumber(a) })
	for _, e := range f.Entries {
		switch {
		case e.First("cn") == "offered":
			for _, usage := range e.Strings("jobOffered") {
				name, rest, _ := strings.Cut(usage, " ")
				p.Offered = append(p.Offered, &offeredJob{Name: name, Usage: rest})
			}
		case e.First("jobEnded") == "":
			p.Running = append(p.Running, e)
		default:
			p.Ended = append(p.Ended, e)
		}
		if number := v.r.URL.Query().Get("job"); number != "" && e.First("cn") == number {
			p.One = e
		}
	}
	return p, nil
}

func showJobs(v *visit) error {
	p, err := v.jobs()
	if err != nil {
		return err
	}
	if v.r.Header.Get("HX-Request") != "" {
		return v.write("jobs", "jobs", "Jobs", p)
	}
	return v.render("jobs", "Jobs", p)
}

// changeJobs starts or cancels a job.
func changeJobs(v *visit) error {
	f := v.r.PostForm
	oid, value, done := control.OIDStartJob, control.StartJob{Name: f.Get("name"), Arguments: strings.Fields(f.Get("arguments"))}.Encode(), "started"
	if number, err := strconv.Atoi(f.Get("cancel")); err == nil {
		oid, value, done = control.OIDCancelJob, control.JobNumber{Number: number}.Encode(), "canceled"
	}
	err := v.confirm(f.Get("password"))
	var answer *op.Response
	if err == nil {
		answer, err = v.client.Do(v.r.Context(), &op.Extended{OID: oid, Value: value}, web.Answer{})
	}
	if err == nil {
		to := link("/jobs", "done", done)
		if n, err := control.ParseJobNumber(answer.Value); err == nil && done == "started" {
			to = link("/jobs", "done", done, "job", strconv.Itoa(n.Number))
		}
		return v.redirect(to)
	}
	p, err2 := v.jobs()
	if err2 != nil {
		return err2
	}
	if !v.problem(err, &p.Error) {
		return err
	}
	for _, o := range p.Offered {
		if o.Name == f.Get("name") {
			o.Arguments = f.Get("arguments")
		}
	}
	return v.render("jobs", "Jobs", p)
}
