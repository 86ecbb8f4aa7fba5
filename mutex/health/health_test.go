package health_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/mutex/health"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

func get(h http.Handler) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	st := faultstore.Wrap(memory.New())
	locks, err := mutex.New(st, mutex.Config{})
	require.NoError(t, err)
	g, err := locks.Lock(t.Context(), "job")
	require.NoError(t, err)
	h := health.Handler(locks)

	code, body := get(h)
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"status":"ok","breaker":"closed","held":1,"atRisk":0}`, body)

	st.Add(faultstore.Fault{Ops: faultstore.All, Fail: &store.UnavailableError{Op: "release", Err: errors.New("connection refused")}})
	code, body = get(h)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "connection refused")
	require.Contains(t, body, `"held":1`)
	st.Clear()

	require.NoError(t, g.Unlock())
	require.NoError(t, locks.Close(t.Context()))
	code, body = get(h)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "closed")
}

func ExampleHandler() {
	locks, err := mutex.New(memory.New(), mutex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /ready", health.Handler(locks))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 {"status":"ok","breaker":"closed","held":0,"atRisk":0}
}
