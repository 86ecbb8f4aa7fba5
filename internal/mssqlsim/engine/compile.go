package engine

import (
	"errors"
	"maps"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/syntax"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// program is a compiled batch.
type program struct {
	run     step
	symbols *symbols
}

// symbols are the variables of a batch. T-SQL declares them from the statement on that DECLAREs them, whatever blocks
// there are.
type symbols struct {
	scalars map[string]variable
	tables  map[string]tableVariable
	size    int
}

func (s *symbols) clone() *symbols {
	return &symbols{scalars: maps.Clone(s.scalars), tables: maps.Clone(s.tables), size: s.size}
}

type variable struct {
	slot int
	typ  value.Type
}

type tableVariable struct {
	slot  int
	table *rows.Table
}

// compiler turns the tree of a batch into steps. Names of tables are looked up in the catalog as the session sees it
// when it compiles.
type compiler struct {
	session *Session
	catalog *rows.Catalog
	own     bool // the catalog is a version that only this session has
	batch   *syntax.Batch
	symbols *symbols
	catches int // CATCH blocks around

	collations map[int]bool // places of the COLLATE clauses that were met
	statement               // what the statement that is compiled is made of
}

// statement is what is collected while one statement is compiled.
type statement struct {
	slots int // rows that it looks at together
	needs []need
	names []objectName // base tables that it names
}

// objectName is a table that a statement names, and whether it changes it.
type objectName struct {
	schema, name string
	writes       bool
}

// leaf is a statement, or a condition, that does something itself. It is compiled with its batch, and again when its
// turn comes if the catalog has changed since or if a table was missing.
type leaf struct {
	text    string
	line    int
	command Command
	plain   bool // it steers transactions or runs others, and so runs in none of its own
	body    body
	statement
	missing    error // the table that did not exist
	generation int64
	again      func(*Session) (*leaf, error)
}

// body is what a leaf does.
type body func(f *frame) error

func compileBatch(s *Session, batch *syntax.Batch, params []Param) (*program, error) {
	c := &compiler{session: s, batch: batch, collations: map[int]bool{},
		symbols: &symbols{scalars: map[string]variable{}, tables: map[string]tableVariable{}}}
	c.catalog, c.own = s.catalog()
	for _, p := range params {
		if err := c.declare(p.Name, p.Type); err != nil {
			return nil, err
		}
	}
	run, err := c.list(batch.Statements)
	if err != nil {
		return nil, err
	}
	if len(c.collations) != batch.Collations() {
		return nil, sqlerr.Unsupported("a COLLATE clause where it stands")
	}
	return &program{run: run, symbols: c.symbols}, nil
}

func (c *compiler) declare(name string, typ value.Type) error {
	key := rows.Fold(name)
	_, scalar := c.symbols.scalars[key]
	_, table := c.symbols.tables[key]
	if scalar || table {
		return sqlerr.New(134, "The variable name '%s' has already been declared.", name).With(15, 2).Ends(sqlerr.EndsCompilation)
	}
	c.symbols.scalars[key] = variable{c.symbols.size, typ}
	c.symbols.size++
	return nil
}

func (c *compiler) variable(name string) (variable, error) {
	v, ok := c.symbols.scalars[rows.Fold(name)]
	if !ok {
		return variable{}, sqlerr.NoVariable(name)
	}
	return v, nil
}

// collation is the collation that a COLLATE clause behind the node names.
func (c *compiler) collation(node syntax.Spanned) (value.Collation, bool, error) {
	name := c.batch.Collation(node)
	if name == "" {
		return value.Collation{}, false, nil
	}
	c.collations[node.EndOffset()] = true
	if rows.Fold(name) == "database_default" {
		return c.session.node.collation, true, nil
	}
	known, ok := value.FindCollation(name)
	if !ok {
		return value.Collation{}, false, sqlerr.Unsupported("the collation %s", name)
	}
	return known, true, nil
}

// list compiles statements that follow each other.
func (c *compiler) list(nodes []ast.Statement) (step, error) {
	steps := make([]step, len(nodes))
	for i, node := range nodes {
		s, err := c.compile(node)
		if err != nil {
			return nil, located(err, node)
		}
		steps[i] = s
	}
	return func(f *frame) (flow, error) {
		for _, s := range steps {
			if f.ctx.Err() != nil {
				return goOn, contextError(f.ctx)
			}
			if how, err := s(f); err != nil || how != goOn {
				return how, err
			}
		}
		return goOn, nil
	}, nil
}

// located gives an error the line of the statement that it is about.
func located(err error, node ast.Statement) error {
	var e *sqlerr.Error
	if fragment, ok := node.(interface{ Frag() *ast.Fragment }); ok && errors.As(err, &e) {
		return e.At(fragment.Frag().StartLine)
	}
	return err
}

// compile compiles one statement.
func (c *compiler) compile(node ast.Statement) (step, error) {
	switch n := node.(type) {
	case *ast.BeginEndBlockStatement:
		return c.list(statements(n.StatementList))
	case *ast.IfStatement:
		return c.ifElse(n)
	case *ast.WhileStatement:
		return c.while(n)
	case *ast.BreakStatement:
		return func(*frame) (flow, error) { return breakLoop, nil }, nil
	case *ast.ContinueStatement:
		return func(*frame) (flow, error) { return continueLoop, nil }, nil
	case *ast.ReturnStatement:
		return func(*frame) (flow, error) { return returned, nil }, nil
	case *ast.TryCatchStatement:
		return c.tryCatch(n)
	case *ast.DeclareTableVariableStatement:
		return c.declareTable(n)
	}
	fragment, ok := node.(fragmented)
	if !ok {
		return nil, sqlerr.Unsupported("%T", node)
	}
	l, err := c.leaf(fragment.Frag(), func(c *compiler, l *leaf) error { return c.fill(l, node) })
	if err != nil {
		return nil, err
	}
	return l.run, nil
}

// fragmented is a node that knows its place.
type fragmented interface{ Frag() *ast.Fragment }

func statements(list *ast.StatementList) []ast.Statement {
	if list == nil {
		return nil
	}
	return list.Statements
}

// leaf compiles what stands at a place by the given function. A table that does not exist (yet) is no error before the
// statement's turn has come.
func (c *compiler) leaf(place *ast.Fragment, fill func(*compiler, *leaf) error) (*leaf, error) {
	l := &leaf{text: strings.TrimSpace(c.batch.Text(place)), line: place.StartLine, command: CommandOther}
	_, l.generation = c.session.node.Data().Catalog()
	c.statement = statement{}
	// Variables that are declared further down do not exist for this statement, whenever it is compiled.
	visible := c.symbols.clone()
	batch, catches := c.batch, c.catches
	l.again = func(s *Session) (*leaf, error) {
		again := &compiler{session: s, batch: batch, catches: catches, collations: map[int]bool{}, symbols: visible.clone()}
		again.catalog, again.own = s.catalog()
		return again.leaf(place, fill)
	}
	err := fill(c, l)
	l.statement = c.statement
	if errors.Is(err, sqlerr.NoObject("")) {
		l.missing = err
		c.forget(place)
		return l, nil
	}
	return l, err
}

// forget counts the COLLATE clauses of a statement that could not be compiled as met: it is compiled again.
func (c *compiler) forget(f *ast.Fragment) {
	for at := f.StartOffset; at <= f.EndOffset(); at++ {
		if c.batch.CollatedAt(at) {
			c.collations[at] = true
		}
	}
}

// fill compiles what a statement does.
func (c *compiler) fill(l *leaf, node ast.Statement) (err error) {
	switch n := node.(type) {
	case *ast.SelectStatement:
		l.command = CommandSelect
		l.body, err = c.selectStatement(n)
	case *ast.InsertStatement:
		l.command = CommandInsert
		l.body, err = c.insert(n.InsertSpecification)
		l.body = opening(l.body)
	case *ast.UpdateStatement:
		l.command = CommandUpdate
		l.body, err = c.update(n.UpdateSpecification)
		l.body = opening(l.body)
	case *ast.DeleteStatement:
		l.command = CommandDelete
		l.body, err = c.delete(n.DeleteSpecification)
		l.body = opening(l.body)
	case *ast.DeclareVariableStatement:
		l.body, err = c.declareVariables(n)
	case *ast.SetVariableStatement:
		l.body, err = c.setVariable(n)
	case *ast.PredicateSetStatement:
		l.plain = true
		l.body = c.setSwitch(n)
	case *ast.SetCommandStatement:
		l.plain = true
		l.body, err = c.setCommand(n)
	case *ast.SetTransactionIsolationLevelStatement:
		l.plain = true
		l.body = func(*frame) error { return nil } // READ COMMITTED, the only one that gets here
	case *ast.ThrowStatement:
		l.plain = true
		l.body, err = c.throw(n)
	case *ast.BeginTransactionStatement, *ast.CommitTransactionStatement, *ast.RollbackTransactionStatement:
		l.plain = true
		l.body = c.transaction(n)
	case *ast.ExecuteStatement:
		l.plain = true
		l.command = CommandExecute
		l.body, err = c.execute(n.ExecuteSpecification, l.text)
	default:
		l.body, err = c.definition(n)
	}
	return err
}
