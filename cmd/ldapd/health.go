package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
)

// healthCommands is the command "ldapd health".
type healthCommands struct{ *cli.Main }

func (m healthCommands) root() *cobra.Command {
	writes, live := false, false
	var f cli.Format
	c := m.Command(&cobra.Command{
		Use:   "health --status-listen URL [--for writes | --live]",
		Short: "Ask a running server whether it is ready",
		Long: `Ask the status listener of a running server whether the server is ready to answer reads,
with --for writes whether it takes changes, or with --live whether it is alive: if not,
it has to be restarted. The exit status is 0 for yes, and 1 for no, with the reasons
printed. The command is meant for containers without a shell.`,
		Args: cobra.NoArgs,
	}, []string{"status.listen"}, func(ctx context.Context, c *config.Config, _ []string) error {
		if c.Status == "" {
			return &config.Error{Text: "status.listen: no URL given: the server has no status listener without"}
		}
		path := "/ready"
		switch {
		case live:
			path = "/live"
		case writes:
			path = "/ready?for=writes"
		}
		return m.run(ctx, c.Status+path, f)
	})
	c.Flags().Var(&onlyWrites{&writes}, "for", "`WHAT` the server must be ready for: reads or writes")
	c.Flags().BoolVar(&live, "live", false, "ask whether the server is alive; if not, it has to be restarted")
	c.MarkFlagsMutuallyExclusive("for", "live")
	return f.AddTo(c)
}

// onlyWrites is a flag whose value is "reads" or "writes".
type onlyWrites struct{ writes *bool }

func (f *onlyWrites) String() string { return "reads" }
func (f *onlyWrites) Type() string   { return "string" }

func (f *onlyWrites) Set(s string) error {
	if s != "reads" && s != "writes" {
		return errors.New("reads or writes")
	}
	*f.writes = s == "writes"
	return nil
}

// askFor is how long a server may take to report its health.
const askFor = 5 * time.Second

// healthText is the answer in JSON.
type healthText struct {
	OK      bool            `json:"ok"`
	Reasons []status.Reason `json:"reasons"`
}

func (m healthCommands) run(ctx context.Context, url string, f cli.Format) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	// 0.0.0.0 and :: are addresses to listen on. A client cannot connect to them.
	url = strings.NewReplacer("//0.0.0.0:", "//127.0.0.1:", "//[::]:", "//[::1]:").Replace(url)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var said struct{ Reasons []status.Reason }
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return fmt.Errorf("%s: %s: %w", url, response.Status, err)
	}
	ok := response.StatusCode == http.StatusOK
	if ok || f != cli.Text {
		row := healthText{ok, append([]status.Reason{}, said.Reasons...)}
		if err := cli.Print(m.Stdout, f, []healthText{row}, func(healthText) string { return "ok" }); ok || err != nil {
			return err
		}
	}
	var texts []string
	for _, r := range said.Reasons {
		texts = append(texts, fmt.Sprintf("%s: %s (since %s)", r.What, r.Text, r.Since.Format(time.RFC3339)))
	}
	return errors.New(strings.Join(texts, "; "))
}
