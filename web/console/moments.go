package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// A tick is a moment of the bar of time.
type tick struct {
	Name string
	At   string // what the control at takes; "": now
	Time time.Time
	rev  uint64 // of At; 0: it is a time
}

// Text returns what a tick is, with its time.
func (t tick) Text() string { return t.Time.UTC().Format(clock) + " · " + t.Name }

// A momentsPage is the data of the bar of time of a page.
type momentsPage struct {
	page  *url.URL
	Since string // when the past that is kept begins; "": not known, or always
	Ticks []tick // the newest first; the first is now
	At    string
	Shown time.Time // the time of At
}

// Newest and Oldest return the ends of the bar, and Now its present value, in milliseconds since 1970.
func (p *momentsPage) Newest() int64 { return p.Ticks[0].Time.UnixMilli() }
func (p *momentsPage) Oldest() int64 { return p.Ticks[len(p.Ticks)-1].Time.UnixMilli() }
func (p *momentsPage) Now() int64    { return p.Shown.UnixMilli() }

// Link returns the address of the page at a moment.
func (p *momentsPage) Link(at string) string {
	q := p.page.Query()
	q.Del("at")
	if at != "" {
		q.Set("at", at)
	}
	u := *p.page
	u.RawQuery = q.Encode()
	return u.String()
}

// MomentsLink returns the address of the moments that this page can show.
func (p *place) MomentsLink() string { return link("/moments", "to", p.Here(p.At)) }

// someMoments are moments that any page can be looked at.
var someMoments = []struct {
	name string
	ago  time.Duration
}{{"an hour ago", time.Hour}, {"a day ago", 24 * time.Hour}, {"a week ago", 7 * 24 * time.Hour}}

// showMoments shows moments at which a page can be looked at: those at which the past begins and checkpoints were made,
// which the monitor tells who may read it, and those at which the entry of the page was changed.
func showMoments(v *visit) error {
	page, err := url.Parse(localPath(v.r.URL.Query().Get("to")))
	if err != nil {
		return err
	}
	now := time.Now()
	p := &momentsPage{page: page, At: page.Query().Get("at"), Ticks: []tick{{"now", "", now, 0}}, Shown: now}
	floor, err := v.kept(p)
	if err != nil {
		return err
	}
	for _, m := range someMoments {
		if t := now.Add(-m.ago).Truncate(time.Second); t.After(floor) {
			p.Ticks = append(p.Ticks, tick{m.name, t.UTC().Format(time.RFC3339), t, 0})
		}
	}
	if rest, ok := strings.CutPrefix(page.EscapedPath(), "/entry/"); ok && v.ReadsChanges() {
		segment, _, _ := strings.Cut(rest, "/")
		id, err := url.PathUnescape(segment)
		if err == nil {
			err = v.ownTicks(p, id)
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(p.Ticks, func(a, b tick) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.rev, a.rev)) })
	for _, t := range p.Ticks {
		if t.At == p.At {
			p.Shown = t.Time
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, p.At); err == nil {
		p.Shown = t
	} else if r, err := revision.Parse(p.At); err == nil {
		p.Shown = r.Time()
	}
	if v.r.Header.Get("HX-Request") != "" {
		return v.write("moments", "moments", "", p)
	}
	return v.render("moments", "Moments", p)
}

// kept adds the beginning of the past and the checkpoints. It returns the former.
func (v *visit) kept(p *momentsPage) (floor time.Time, err error) {
	e, err := v.base("cn=cluster,cn=monitor", "clusterFloor", "clusterCheckpoint")
	if v.problem(err, new(string)) {
		v.answer(0) // the monitor is not shown
		return floor, nil
	} else if err != nil {
		return floor, err
	}
	if t, err := schema.Time([]byte(e.First("clusterFloor"))); err == nil {
		floor = t.Add(time.Second) // it has no fraction
		p.Since = t.UTC().Format(clock)
		if floor.Before(p.Shown) {
			p.Ticks = append(p.Ticks, tick{"the past begins", floor.UTC().Format(time.RFC3339), floor, 0})
		}
	}
	for _, text := range e.Strings("clusterCheckpoint") {
		at, name, _ := strings.Cut(text, " ")
		if r, err := revision.Parse(at); err == nil {
			p.Ticks = append(p.Ticks, tick{name, name, r.Time(), uint64(r)})
		}
	}
	return floor, nil
}

// ownTicks adds the last changes of an entry.
func (v *visit) ownTicks(p *momentsPage, id string) error {
	if name, ok := strings.CutPrefix(id, "dn:"); ok {
		e, err := v.base(name, "entryUUID")
		if v.problem(err, new(string)) {
			v.answer(0) // it is not there now
			return nil
		} else if err != nil {
			return err
		}
		id = e.First("entryUUID")
	}
	_, changes, err := v.changes(filter.EqualTo("targetEntryUUID", id), rows, "")
	for _, c := range changes {
		if r, err := revision.Parse(c.Revision()); err == nil {
			p.Ticks = append(p.Ticks, tick{c.Kind + " by " + cmp.Or(labelOf(c.Who()), "the server"), c.Revision(), r.Time(), uint64(r)})
		}
	}
	return err
}
