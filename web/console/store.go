package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A figure is a metric of the server: its name and labels in words, and its value with its unit.
type figure struct{ Name, Of, Text string }

// A figureGroup is the metrics whose names begin with the same words.
type figureGroup struct {
	Name    string
	Figures []figure
}

// figureGroups are the groups of the page of the store, by the beginnings of the names of metrics.
var figureGroups = []struct{ name, prefixes string }{
	{"On the disk", "store_"}, {"The past", "gc_ floor_ branch"}, {"Caches", "cache_"}, {"Archive", "archive_ drill_"},
	{"Standby", "standby_"}, {"Certificates", "certificate_"}, {"Servers", "ready head_ lease_ clock_ slots settled_ undecided_ configuration_"},
}

// showStore shows what the server measures of its store.
func showStore(v *visit) error {
	e, err := v.base("cn=Metrics,cn=monitor", "monitoredInfo")
	if err != nil {
		return err
	}
	var groups []figureGroup
	for _, g := range figureGroups {
		one := figureGroup{Name: g.name}
		for i := range e.Attributes {
			for _, value := range e.Attributes[i].Values {
				if slices.ContainsFunc(strings.Fields(g.prefixes), func(p string) bool { return strings.HasPrefix(string(value), p) }) {
					one.Figures = append(one.Figures, figureOf(string(value)))
				}
			}
		}
		if len(one.Figures) > 0 {
			groups = append(groups, one)
		}
	}
	return v.render("store", "Store", groups)
}

// figureOf parses a line such as store_bytes{part="tables"} 4096.
func figureOf(line string) figure {
	i := strings.LastIndexByte(line, ' ')
	name, text := line[:max(i, 0)], line[i+1:]
	name, of, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	value, err := strconv.ParseFloat(text, 64)
	if err == nil {
		name, text = withUnit(name, text, value)
	}
	return figure{strings.ReplaceAll(name, "_", " "), strings.NewReplacer(`"`, "", "=", " ", ",", ", ").Replace(of), text}
}

// withUnit takes the unit from the end of a metric's name, and writes the value with it.
func withUnit(name, text string, value float64) (string, string) {
	name, counts := strings.CutSuffix(name, "_total")
	switch short, unit := name, ""; {
	case cut(&short, "_timestamp_seconds"):
		if value == 0 {
			return short, "never"
		}
		return short, time.Unix(int64(value), 0).UTC().Format(clock)
	case cut(&short, "_bytes"):
		for _, unit = range []string{"octets", "KiB", "MiB", "GiB", "TiB"} {
			if value < 1024 {
				break
			}
			value /= 1024
		}
		return short, fmt.Sprintf("%.4g %s", value, unit)
	case cut(&short, "_seconds"):
		return short, time.Duration(value * float64(time.Second)).Round(time.Millisecond).String()
	case cut(&short, "_ratio"):
		return short, fmt.Sprintf("%.3g %%", 100*value)
	}
	if counts {
		text += " times"
	}
	return name, text
}

func cut(s *string, suffix string) (ok bool) {
	*s, ok = strings.CutSuffix(*s, suffix)
	return ok
}
