package engine

import (
	"slices"
	"strings"
	"sync"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// principals are the logins of a node. As long as none was added, every name and password logs in and may do anything.
type principals struct {
	mu     sync.Mutex
	logins map[string]principal
}

type principal struct {
	name, password string
	owner          bool
}

// AddOwner adds a login that may do anything in the database.
func (p *principals) AddOwner(name, password string) { p.add(principal{name, password, true}) }

// AddUser adds a login that may do what it is granted (GRANT) and nothing else.
func (p *principals) AddUser(name, password string) { p.add(principal{name, password, false}) }

func (p *principals) add(one principal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logins == nil {
		p.logins = map[string]principal{}
	}
	p.logins[rows.Fold(one.name)] = one
}

// authenticate returns the principal of a login, or false.
func (p *principals) authenticate(name, password string) (principal, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logins == nil {
		return principal{name: "dbo", owner: true}, true
	}
	one, ok := p.logins[rows.Fold(name)]
	return one, ok && one.password == password
}

// known returns the name of a principal of the database.
func (p *principals) known(name string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.logins[rows.Fold(name)]
	return one.name, ok
}

// may reports whether a principal has a permission on something: "" = the database, "schema" or "schema.table". What
// is granted on the database or on the schema holds for the table; a DENY anywhere among them wins, CONTROL is
// everything.
func (who principal) may(catalog *rows.Catalog, permission, on string) bool {
	if who.owner {
		return true
	}
	on = rows.Fold(on)
	schema, _, _ := strings.Cut(on, ".")
	granted := false
	for _, g := range catalog.Grants {
		if !strings.EqualFold(g.Principal, who.name) || g.On != "" && g.On != schema && g.On != on {
			continue
		}
		if g.Permission != permission && g.Permission != "CONTROL" {
			continue
		}
		if g.Deny {
			return false
		}
		granted = true
	}
	return granted
}

// sees reports whether the catalog shows a table to the principal: if it has any permission on it.
func (who principal) sees(catalog *rows.Catalog, t *rows.Table) bool {
	if who.owner {
		return true
	}
	permissions := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "REFERENCES", "VIEW DEFINITION"}
	return slices.ContainsFunc(permissions, func(p string) bool { return who.may(catalog, p, t.FullName()) })
}

// need is a permission that a statement needs on a table.
type need struct {
	permission string
	table      *rows.Table
}

func (f *frame) check(needs []need) error {
	if f.session.who.owner {
		return nil
	}
	catalog, _ := f.session.catalog()
	for _, n := range needs {
		if !f.session.who.may(catalog, n.permission, n.table.FullName()) {
			return sqlerr.Denied(n.permission, n.table.Name, f.session.node.database, n.table.Schema)
		}
	}
	return nil
}
