// Package health serves the health of a mutex client over HTTP, for readiness checks.
//
// Use it for readiness, never for liveness: a process that is restarted because its database is down loses the locks that it
// would have kept.
package health

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
)

// report is the body of the answer.
type report struct {
	Status      string     `json:"status"`          // "ok" or "unavailable"
	Error       string     `json:"error,omitempty"` // why
	Breaker     string     `json:"breaker"`         // "closed", "open", "half-open"
	NextProbe   *time.Time `json:"nextProbe,omitempty"`
	Held        int        `json:"held"`
	AtRisk      int        `json:"atRisk"`
	LastRenewal *time.Time `json:"lastRenewal,omitempty"`
}

// Handler answers 200 if the store can be reached, else 503, both with a JSON object: status, error, breaker, nextProbe, held,
// atRisk, lastRenewal. Each request makes one call at the store, bounded by two seconds and by the request's context.
func Handler(c *mutex.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := c.Health(r.Context())
		out := report{Status: "ok", Breaker: h.Breaker.Phase.String(), Held: h.Held, AtRisk: h.AtRisk}
		if !h.LastRenewal.IsZero() {
			out.LastRenewal = &h.LastRenewal
		}
		if !h.Breaker.NextProbe.IsZero() {
			out.NextProbe = &h.Breaker.NextProbe
		}
		code := http.StatusOK
		if h.Store != nil {
			code, out.Status, out.Error = http.StatusServiceUnavailable, "unavailable", h.Store.Error()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(out) // the client may have left
	})
}
