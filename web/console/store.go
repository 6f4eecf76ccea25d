package console

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
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

// figureOf returns a line such as store_bytes{kind="tables"} 4096 in words.
func figureOf(line string) figure {
	f, err := monitor.ParseFigure(line)
	if err != nil {
		return figure{Name: line}
	}
	name, text := f.InUnit()
	return figure{strings.ReplaceAll(name, "_", " "), strings.NewReplacer(`"`, "", "=", " ", ",", ", ").Replace(f.Labels), text}
}
