package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are the options of a status server.
type Options struct {
	Health   *Health
	Metrics  prometheus.Gatherer
	Targets  func(context.Context) ([]string, error) // HOST:PORT of the status servers of a store
	Log      *slog.Logger
	Deadline time.Duration // for reading or writing one request; 10 seconds by default
}

// A Server serves the state of a process over HTTP.
type Server struct {
	http *http.Server
	l    net.Listener
	done chan struct{}
}

// Listen listens at a URL of the form http://HOST:PORT and serves requests.
func Listen(rawURL string, o Options) (*Server, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Port() == "" || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("%q is not http://HOST:PORT", rawURL)
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", rawURL, err)
	}
	if o.Deadline == 0 {
		o.Deadline = 10 * time.Second
	}
	s := &Server{l: l, done: make(chan struct{}), http: &http.Server{
		Handler: Handler(o), ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ReadTimeout: o.Deadline, WriteTimeout: o.Deadline, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go s.serve(o.Log)
	return s, nil
}

func (s *Server) serve(log *slog.Logger) {
	defer close(s.done)
	if err := s.http.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("the status server has ended", "error", err)
	}
}

// URL returns the URL at which the server listens.
func (s *Server) URL() string { return "http://" + s.l.Addr().String() }

// Close closes the server.
func (s *Server) Close() {
	s.http.Close()
	<-s.done
}

// mostScrapes is the largest number of concurrent scrapes.
const mostScrapes = 4

// Handler returns the handler of requests.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: mostScrapes, Timeout: o.Deadline, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { answer(w, "live", o.Health.Live()) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) { ready(w, r, o.Health) })
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, r *http.Request) { servers(w, r, o) })
	return mux
}

func ready(w http.ResponseWriter, r *http.Request, h *Health) {
	switch f := r.URL.Query().Get("for"); f {
	case "", "reads", "writes":
		answer(w, "ready", h.Ready(f == "writes"))
	default:
		http.Error(w, `"for" is reads or writes`, http.StatusBadRequest)
	}
}

// answer writes an object such as {"ready":false,"reasons":[...]}. If there are
// reasons, the status is 503.
func answer(w http.ResponseWriter, what string, reasons []Reason) {
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, map[string]any{what: len(reasons) == 0, "reasons": reasons})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // error ignored: the client has gone
}

// servers writes its answer in the format of Prometheus's HTTP service discovery.
func servers(w http.ResponseWriter, r *http.Request, o Options) {
	targets, err := o.Targets(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	writeJSON(w, http.StatusOK, []group{{targets, map[string]string{"job": "ldapd"}}})
}
