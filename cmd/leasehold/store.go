package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// leases is what the verbs need of a store.
type leases interface {
	store.Store
	store.Inspector
	Close() error
}

const (
	storeVar  = "LEASEHOLD_STORE"
	storeHelp = "where the locks are: sqlserver://USER@HOST?database=NAME or sqlite:PATH (default $" + storeVar + ", else a file of this user on this machine)"
)

// openers is where a kind of store is added: by the scheme of its URL. An opener gets what comes after the colon, and never
// puts it into an error: it may hold a password.
var openers = map[string]func(a *app, rest string) (leases, error){
	"sqlite":    openSQLite,
	"sqlserver": openSQLServer,
}

// target is what the flag or the environment says about the store; source is which of them, "" if none.
func (a *app) target() (target, source string) {
	if flag := a.root.PersistentFlags().Lookup("store"); flag.Changed {
		return flag.Value.String(), "--store"
	}
	if target, named := a.env.lookup(storeVar); named {
		return target, storeVar
	}
	return "", ""
}

// open opens the store that the flag, the environment or nobody names.
func (a *app) open() (leases, error) {
	target, source := a.target()
	if source == "" {
		return a.openDefault()
	}
	if source == "--store" && hasPassword(target) {
		a.notices.fault("the password in --store can be seen in the list of processes: better give the URL in $%s", storeVar)
	}
	if target == "" {
		return nil, misconfiguredf("%s is set but empty: name a store, sqlserver://… or sqlite:PATH, or unset it", source)
	}
	scheme, rest, _ := strings.Cut(target, ":")
	opener, known := openers[strings.ToLower(scheme)]
	if !known { // not to be quoted: a connection string without a scheme has its password anywhere
		return nil, misconfiguredf("%s names no store: it must be sqlserver://USER@HOST?database=NAME or sqlite:PATH", source)
	}
	st, err := opener(a, rest)
	if err != nil {
		return nil, asStoreError(err)
	}
	return st, nil
}

func isSQLite(target string) bool {
	scheme, _, found := strings.Cut(target, ":")
	return found && strings.EqualFold(scheme, "sqlite")
}

// openExisting opens a store to look at it. A file that is not there is rather a slip of the pen than a store without locks.
func (a *app) openExisting() (leases, error) {
	if target, source := a.target(); isSQLite(target) && a.server.refuse(a.root) == nil {
		_, path, _ := strings.Cut(target, ":")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, misconfiguredf("%s names a file that does not exist: %s; run creates it", source, path)
		}
	}
	return a.open()
}

// asStoreError gives bad input its code: to name an unusable store is a matter of configuration.
func asStoreError(err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return &exitError{codeMisconfigured, err}
	}
	return err
}

func openSQLite(a *app, path string) (leases, error) {
	if err := a.server.refuse(a.root); err != nil {
		return nil, err
	}
	if strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") {
		return nil, misconfiguredf("sqlite:PATH takes a path, not //: sqlite:/absolute/path or sqlite:relative/path")
	}
	return opened(sqlite.Open(path))
}

// opened keeps a nil pointer from becoming an interface that is not nil.
func opened(st *sqlite.Store, err error) (leases, error) {
	if err != nil {
		return nil, err
	}
	return st, nil
}

// openDefault opens the file of this user, and says what that is worth.
func (a *app) openDefault() (leases, error) {
	if err := a.server.refuse(a.root); err != nil {
		return nil, err
	}
	if _, inside := a.env.lookup("KUBERNETES_SERVICE_HOST"); inside {
		return nil, misconfiguredf("no store is named, and inside Kubernetes a local file excludes nobody: set $%s", storeVar)
	}
	folder, err := stateFolder(a.env, runtime.GOOS)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, misconfiguredf("cannot create the folder of the default store: %w; set $%s", err, storeVar)
	}
	path := filepath.Join(folder, "leases.db")
	a.notices.tell("no store is named: this lock excludes only this user on this machine (%s); set $%s to share it", path, storeVar)
	st, err := opened(sqlite.Open(path))
	if err != nil {
		return nil, asStoreError(err)
	}
	return st, nil
}

// stateFolder is where the programs of this user keep what outlives them.
func stateFolder(env environ, goos string) (string, error) {
	home, _ := env.lookup("HOME")
	var base string
	switch state, _ := env.lookup("XDG_STATE_HOME"); {
	case goos == "windows":
		base, _ = env.lookup("LocalAppData")
	case filepath.IsAbs(state): // a relative one is to be ignored, says the XDG specification
		base = state
	case !filepath.IsAbs(home):
	case goos == "darwin":
		base = filepath.Join(home, "Library", "Application Support")
	default:
		base = filepath.Join(home, ".local", "state")
	}
	if base == "" {
		return "", misconfiguredf("no store is named, and there is no home folder for the default one: set $%s", storeVar)
	}
	return filepath.Join(base, "leasehold"), nil
}

// environ is a process environment, "key=value" each.
type environ []string

// lookup returns the first value of a variable, as getenv does.
func (e environ) lookup(key string) (string, bool) {
	for _, entry := range e {
		if value, ok := strings.CutPrefix(entry, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// with returns a copy in which the variable has just this value.
func (e environ) with(key, value string) environ {
	return append(e.without(key), fmt.Sprintf("%s=%s", key, value))
}

// without returns a copy that does not have the variable.
func (e environ) without(key string) environ {
	out := make(environ, 0, len(e)+1)
	for _, entry := range e {
		if !strings.HasPrefix(entry, key+"=") {
			out = append(out, entry)
		}
	}
	return out
}
