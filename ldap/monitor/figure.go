package monitor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Figure is a gauge or a counter as cn=Metrics,cn=monitor shows it.
type Figure struct {
	Name   string // as Prometheus sees it, without its prefix: store_bytes
	Labels string // kind="tables"; "": none
	Value  float64
}

// String returns the form of cn=Metrics: store_bytes{kind="tables"} 4096.
func (f Figure) String() string {
	name := f.Name
	if f.Labels != "" {
		name += "{" + f.Labels + "}"
	}
	return name + " " + strconv.FormatFloat(f.Value, 'f', -1, 64)
}

// ParseFigure parses what String returns.
func ParseFigure(line string) (f Figure, err error) {
	i := strings.LastIndexByte(line, ' ')
	f.Value, err = strconv.ParseFloat(line[i+1:], 64)
	f.Name, f.Labels, _ = strings.Cut(strings.TrimSuffix(line[:max(i, 0)], "}"), "{")
	return f, err
}

// InUnit returns the name without the unit at its end, and the value with its unit.
func (f Figure) InUnit() (name, text string) {
	name, counts := strings.CutSuffix(f.Name, "_total")
	switch short, unit := name, ""; {
	case cut(&short, "_timestamp_seconds"):
		if f.Value == 0 {
			return short, "never"
		}
		return short, time.Unix(int64(f.Value), 0).UTC().Format(time.DateTime)
	case cut(&short, "_bytes"):
		value := f.Value
		for _, unit = range []string{"octets", "KiB", "MiB", "GiB", "TiB"} {
			if value < 1024 {
				break
			}
			value /= 1024
		}
		return short, fmt.Sprintf("%.4g %s", value, unit)
	case cut(&short, "_seconds"):
		return short, time.Duration(f.Value * float64(time.Second)).Round(time.Millisecond).String()
	case cut(&short, "_ratio"):
		return short, fmt.Sprintf("%.3g %%", 100*f.Value)
	}
	text = strconv.FormatFloat(f.Value, 'f', -1, 64)
	if counts {
		text += " times"
	}
	return name, text
}

func cut(s *string, suffix string) (ok bool) {
	*s, ok = strings.CutSuffix(*s, suffix)
	return ok
}
