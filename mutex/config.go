package mutex

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
)

// Config of a [Client]. The zero value is ready to use. TTL, Renew and Margin belong together: a TTL given with
// [WithTTL] scales all three.
//
// TTL − Margin ≥ 1.1 × Renew + one attempt is checked, an attempt being (TTL − Margin)/3, at most 10 s: a renewal that
// hangs is followed by another one in time. In practice TTL ≥ 6 round trips + Margin. The worst cases follow (numbers for
// the defaults):
//
//   - A holder hears of a loss at the latest TTL − Margin (27 s) after it sent the last renewal that succeeded; of a
//     definite one at its next renewal, so at most 1.1 × Renew (11 s) after it happened, plus a round trip.
//   - A waiter takes over a crashed holder's lock at its expiry: at the latest TTL (30 s) after the store executed the
//     holder's last renewal, plus 50 ms and one round trip. After an Unlock it takes at most 1 s.
type Config struct {
	// TTL is how long the row lives without a renewal: 200 ms to 24 h, rounded up to a millisecond. Default 30 s.
	TTL time.Duration

	// Renew is the interval of the heartbeat. Default TTL/3, at most a minute.
	Renew time.Duration

	// Margin is how long before the row's expiry the guard's context ends if no renewal succeeded. It is the time that
	// the code under the lock has to stop, and it covers the errors of all clocks: (clock rate error over TTL) + (clock
	// skew between the database's nodes) + (lateness of a timer) must be less. Default TTL/10, at least 50 ms.
	Margin time.Duration

	// Drain is how long the lock goes on being renewed after the guard's context was ended by something else than
	// a loss, so that work can stop under protection. Default one TTL; 1 ms is none.
	Drain time.Duration

	// ConfirmTimeout is how long a grant may take, from its request on, until all replicas of the store show it; then it is given
	// back, and the attempt is [ErrUnavailable] with [ErrNotConfirmed]. It has no effect on a store without replicas, and
	// renewals do not wait: trust in a held lock grows when the replicas show its renewal. The default,
	// (TTL − Margin − Renew) × 0.9, is also the most that is allowed: 15.3 s; a shorter TTL given with WithTTL lowers it.
	ConfirmTimeout time.Duration

	// Instance says who holds a lock, for people: owners are "<instance>/<nonce>". At most 111 UTF-16 units. Default
	// "<host>:<pid>".
	Instance string

	// Logger receives what happens, with the keys name, owner, token, waited, held, left, reason, err. Nil is silent.
	// Ordinary life and contention are logged at debug, a guard at risk at warn, a loss at error.
	Logger *slog.Logger

	// Hooks are called for what happens.
	Hooks Hooks

	// Breaker is the circuit breaker that New puts around the store, unless the store has one or NoBreaker is set. Its
	// OpenFor is min(TTL/3, 1 s) by default, so that an outage never costs more than the outage.
	Breaker breaker.Config

	// NoBreaker leaves the store as it is.
	NoBreaker bool
}

const (
	defaultTTL      = 30 * time.Second
	minTTL          = 200 * time.Millisecond
	maxTTL          = 24 * time.Hour
	maxDefaultRenew = time.Minute
	minMargin       = 50 * time.Millisecond
	maxAttempt      = 10 * time.Second
)

// timing is a Config's durations for one TTL.
type timing struct {
	ttl, renew, margin, drain time.Duration

	confirm time.Duration // for how long after its request a grant may be unconfirmed
}

// trust is how long a guard believes in its lock after a request was sent.
func (t timing) trust() time.Duration { return t.ttl - t.margin }

// attempt is the limit of one call at the store: three of them fit into trust.
func (t timing) attempt() time.Duration { return min(t.trust()/3, maxAttempt) }

// maxConfirm leaves a guard more than R of trust at its birth, whenever its grant is confirmed.
func (t timing) maxConfirm() time.Duration { return (t.trust() - t.renew) * 9 / 10 }

// validate checks the relations; what names the source of the durations.
func (t timing) validate(what string) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w %s: %s", store.ErrInvalid, what, fmt.Sprintf(format, args...)))
	}
	switch {
	case t.ttl < minTTL || t.ttl > maxTTL:
		bad("TTL is %v; it must be from %v to %v", t.ttl, minTTL, maxTTL)
	case t.margin < minMargin:
		bad("Margin is %v; it must be at least %v", t.margin, minMargin)
	case t.renew <= 0:
		bad("Renew is %v; it must be positive", t.renew)
	case t.margin >= t.ttl:
		bad("Margin %v must be shorter than TTL %v", t.margin, t.ttl)
	case t.trust() < t.renew*11/10+t.attempt():
		bad("a renewal has no chance to be repeated: TTL %v − Margin %v = %v must not be less than 1.1 × Renew %v + one attempt %v; Renew may be %v at most",
			t.ttl, t.margin, t.trust(), t.renew, t.attempt(), ((t.trust() - t.attempt()) * 10 / 11).Truncate(time.Millisecond))
	}
	if t.drain <= 0 {
		bad("Drain is %v; it must be positive (1 ms is none)", t.drain)
	}
	return errors.Join(errs...)
}

// withDefaults fills in what was left unset, and reports all that is wrong together.
func (cfg Config) withDefaults() (Config, error) {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"TTL", cfg.TTL}, {"Renew", cfg.Renew}, {"Margin", cfg.Margin}, {"Drain", cfg.Drain}, {"ConfirmTimeout", cfg.ConfirmTimeout}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%w Config: %s is %v; it must not be negative (zero is the default)", store.ErrInvalid, d.name, d.value))
		}
	}
	if cfg.Instance == "" {
		cfg.Instance = defaultInstance(os.Hostname())
	}
	if err := store.ValidateInstance(cfg.Instance); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return cfg, errors.Join(errs...)
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	cfg.TTL = ceilMilli(cfg.TTL)
	if cfg.Breaker.OpenFor == 0 {
		cfg.Breaker.OpenFor = min(cfg.TTL/3, time.Second)
	}
	t := cfg.timing(cfg.TTL)
	err := t.validate("Config")
	if most := t.maxConfirm(); err == nil && cfg.ConfirmTimeout > most {
		err = fmt.Errorf("%w Config: ConfirmTimeout is %v; (TTL %v − Margin %v − Renew %v) × 0.9 = %v is the most: "+
			"a grant must be renewed before trust in it is used up", store.ErrInvalid, cfg.ConfirmTimeout, t.ttl, t.margin, t.renew, most)
	}
	return cfg, err
}

// timing scales the durations to a TTL: those that were given keep their ratio to Config.TTL.
func (cfg Config) timing(ttl time.Duration) timing {
	t := timing{ttl: ceilMilli(ttl), drain: cfg.Drain}
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(t.ttl) / float64(cfg.TTL))
	}
	if t.renew = scale(cfg.Renew); cfg.Renew == 0 {
		t.renew = min(t.ttl/3, maxDefaultRenew)
	}
	if t.margin = scale(cfg.Margin); cfg.Margin == 0 || t.ttl != cfg.TTL {
		if cfg.Margin == 0 {
			t.margin = t.ttl / 10
		}
		t.margin = max(t.margin, minMargin)
	}
	if t.drain == 0 {
		t.drain = t.ttl
	}
	if t.confirm = t.maxConfirm(); cfg.ConfirmTimeout > 0 {
		t.confirm = min(t.confirm, cfg.ConfirmTimeout) // how far replicas are behind has nothing to do with a TTL
	}
	return t
}

func ceilMilli(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// defaultInstance is "<host>:<pid>", whatever the host is called.
func defaultInstance(host string, err error) string {
	const maxHost = 90 // with a pid it stays below what an instance may have
	host = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) || r > 0xFFFF || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, host)
	if runes := []rune(host); len(runes) > maxHost {
		host = string(runes[:maxHost])
	}
	if err != nil || host == "" {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(os.Getpid())
}
