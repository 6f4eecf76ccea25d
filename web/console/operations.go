package console

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A sample has the counters of cn=monitor at a time.
type sample struct {
	at     time.Time
	counts map[string]int64
}

const (
	sampled     = time.Hour        // how long samples are kept
	sampleEvery = 10 * time.Second // the least time between two samples
)

// samples are those of the last hour. There is one whenever somebody looks: nothing is read while nobody
// does.
type samples struct {
	sync.Mutex
	all []sample
}

// add adds a sample and returns those of the last hour.
func (s *samples) add(x sample) []sample {
	s.Lock()
	defer s.Unlock()
	s.all = slices.DeleteFunc(s.all, func(old sample) bool { return x.at.Sub(old.at) > sampled })
	if n := len(s.all); n == 0 || x.at.Sub(s.all[n-1].at) >= sampleEvery-time.Second {
		s.all = append(s.all, x)
	}
	return slices.Clone(s.all)
}

// A series is a number over time: the difference of counters a second, or a counter as it is.
type series struct {
	Name, Unit string
	of         []string
	level      bool
	at         []time.Time
	values     []float64
}

// seriesOf are the plots of the page, by counters of cn=snmp,cn=monitor.
func seriesOf(all []sample) (plots []*series) {
	for _, p := range []*series{
		{Name: "Searches", Unit: "/s", of: []string{"searchOps"}},
		{Name: "Updates", Unit: "/s", of: []string{"addEntryOps", "removeEntryOps", "modifyEntryOps", "modifyRDNOps"}},
		{Name: "Binds", Unit: "/s", of: []string{"anonymousBinds", "simpleAuthBinds", "strongAuthBinds"}},
		{Name: "Entries sent", Unit: "/s", of: []string{"entriesReturned"}},
		{Name: "Errors", Unit: "/s", of: []string{"errors"}},
		{Name: "Connections", of: []string{"connections"}, level: true},
	} {
		sum := func(s sample) (n int64) {
			for _, name := range p.of {
				n += s.counts[name]
			}
			return n
		}
		for i, s := range all {
			switch {
			case p.level:
				p.at, p.values = append(p.at, s.at), append(p.values, float64(sum(s)))
			case i > 0:
				p.at = append(p.at, s.at)
				p.values = append(p.values, max(0, float64(sum(s)-sum(all[i-1]))/s.at.Sub(all[i-1].at).Seconds()))
			}
		}
		plots = append(plots, p)
	}
	return plots
}

// Measured reports whether there is a line to show.
func (s *series) Measured() bool { return len(s.values) > 1 }

// Now returns the last value.
func (s *series) Now() string {
	if len(s.values) == 0 {
		return "–"
	}
	return number(s.values[len(s.values)-1])
}

// Most returns the largest value.
func (s *series) Most() string {
	if len(s.values) == 0 {
		return ""
	}
	return number(slices.Max(s.values))
}

func number(x float64) string {
	if x < 1 && x > 0 {
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	if x >= 10 || x == float64(int64(x)) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// Minutes returns the values a minute, the newest first, for a table.
func (s *series) Minutes() (all []fact) {
	for i := len(s.at) - 1; i >= 0; i-- {
		minute := s.at[i].UTC().Format("15:04")
		if n := len(all); n == 0 || all[n-1].Name != minute {
			all = append(all, fact{minute, number(s.values[i])})
		}
	}
	return all
}

const plotWidth, plotHeight = 300, 60

// Plot returns the values of the last hour as a picture. A gap in which nobody looked has no line.
func (s *series) Plot() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true" focusable="false">`, plotWidth, plotHeight)
	top := 1.0
	if len(s.values) > 0 {
		top = max(top, slices.Max(s.values))
	}
	var points []string
	flush := func() {
		if len(points) == 1 { // a point alone is a short line
			points = append(points, "h1")
		}
		if len(points) > 0 {
			b.WriteString(`<path d="M` + strings.Join(points, " ") + `"/>`)
		}
		points = nil
	}
	for i, at := range s.at {
		if i > 0 && at.Sub(s.at[i-1]) > 3*sampleEvery {
			flush()
		}
		x := plotWidth * (1 - float64(time.Since(at))/float64(sampled))
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, plotHeight-1-s.values[i]/top*(plotHeight-2)))
	}
	flush()
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers only
}

// An operationsPage is the data of the page of operations.
type operationsPage struct {
	Plots      []*series
	Kinds      []*Entry // counts by kind
	Facts      []fact
	Since, For string
}

// showOperations shows what the server has done since it began, and at which rates in the last hour.
func showOperations(v *visit) error {
	f, err := v.search(&op.Search{Base: "cn=monitor", Scope: op.WholeSubtree, Filter: namedLike(""), Attributes: []string{"*", "+"}}, "")
	if err != nil {
		return err
	}
	x := sample{at: time.Now(), counts: map[string]int64{}}
	p := &operationsPage{}
	for _, e := range f.Entries {
		switch name := strings.ToLower(e.DN); {
		case name == "cn=snmp,cn=monitor":
			for i := range e.Attributes {
				if n, err := strconv.ParseInt(string(e.Attributes[i].Values[0]), 10, 64); err == nil {
					x.counts[e.Attributes[i].Type.Name()] = n
				}
			}
		case strings.HasSuffix(name, ",cn=operations,cn=monitor"):
			p.Kinds = append(p.Kinds, e)
		case name == "cn=monitor":
			p.Since = v.Clock(e.First("startTime"))
			p.For = v.Between(e.First("startTime"), "")
		}
	}
	for _, n := range []fact{{"errors", "errors"}, {"failed binds", "bindSecurityErrors"}, {"failed binds and refused", "securityErrors"}, {"referrals", "referrals"}, {"octets received", "bytesRecv"}, {"octets sent", "bytesSent"}} {
		p.Facts = append(p.Facts, fact{n.Name, strconv.FormatInt(x.counts[n.Text], 10)})
	}
	p.Plots = seriesOf(v.samples.add(x))
	if v.r.Header.Get("HX-Request") != "" {
		return v.write("operations", "rates", "Operations", p)
	}
	return v.render("operations", "Operations", p)
}
