package engine

import (
	"errors"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// condition compiles the condition of an IF or WHILE: a statement of its own, with its own "now", after which
// @@ROWCOUNT is 0.
func (c *compiler) condition(node ast.Statement, predicate ast.BooleanExpression) (func(*frame) (bool, error), error) {
	place, ok := predicate.(fragmented)
	if !ok || !place.Frag().HasSpan() {
		place, _ = node.(fragmented)
	}
	l, err := c.leaf(place.Frag(), func(c *compiler, l *leaf) error {
		test, err := c.predicate(predicate, nil)
		if err != nil {
			return err
		}
		slots := c.slots
		l.body = func(f *frame) error {
			truth, err := test.eval(f.env(slots))
			f.session.rowCount = 0
			f.condition = truth == isTrue
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func(f *frame) (bool, error) {
		f.condition = false // also after an error that does not end the batch
		_, err := l.run(f)
		return f.condition, err
	}, nil
}

func (c *compiler) ifElse(n *ast.IfStatement) (step, error) {
	test, err := c.condition(n, n.Predicate)
	if err != nil {
		return nil, err
	}
	branches := [2]step{1: func(*frame) (flow, error) { return goOn, nil }}
	if branches[0], err = c.list([]ast.Statement{n.ThenStatement}); err != nil {
		return nil, err
	}
	if n.ElseStatement != nil {
		if branches[1], err = c.list([]ast.Statement{n.ElseStatement}); err != nil {
			return nil, err
		}
	}
	return func(f *frame) (flow, error) {
		truth, err := test(f)
		switch {
		case err != nil:
			return goOn, err
		case truth:
			return branches[0](f)
		default:
			return branches[1](f)
		}
	}, nil
}

func (c *compiler) while(n *ast.WhileStatement) (step, error) {
	test, err := c.condition(n, n.Predicate)
	if err != nil {
		return nil, err
	}
	loop, err := c.list([]ast.Statement{n.Statement})
	if err != nil {
		return nil, err
	}
	return func(f *frame) (flow, error) {
		for {
			if f.ctx.Err() != nil {
				return goOn, contextError(f.ctx)
			}
			truth, err := test(f)
			if err != nil || !truth {
				return goOn, err
			}
			how, err := loop(f)
			if err != nil || how == returned {
				return how, err
			}
			if how == breakLoop {
				return goOn, nil
			}
		}
	}, nil
}

func (c *compiler) tryCatch(n *ast.TryCatchStatement) (step, error) {
	try, err := c.list(statements(n.TryStatements))
	if err != nil {
		return nil, err
	}
	c.catches++
	catch, err := c.list(statements(n.CatchStatements))
	c.catches--
	if err != nil {
		return nil, err
	}
	return func(f *frame) (flow, error) {
		f.try++
		how, err := try(f)
		f.try--
		var e *sqlerr.Error
		if !errors.As(err, &e) || e.Scope >= sqlerr.EndsCompilation {
			return how, err
		}
		f.caught = append(f.caught, e)
		how, err = catch(f)
		f.caught = f.caught[:len(f.caught)-1]
		return how, err
	}, nil
}

// throw compiles THROW. It ends the batch unless a TRY catches it; without arguments it passes on what was caught.
func (c *compiler) throw(n *ast.ThrowStatement) (body, error) {
	if n.ErrorNumber == nil {
		if c.catches == 0 {
			return nil, sqlerr.ThrowOutsideCatch()
		}
		return func(f *frame) error {
			e := *f.caught[len(f.caught)-1]
			return e.Ends(sqlerr.EndsBatch)
		}, nil
	}
	var parts [3]operand
	for i, node := range []ast.ScalarExpression{n.ErrorNumber, n.Message, n.State} {
		part, err := c.scalar(node, nil)
		if err != nil {
			return nil, err
		}
		typ := value.TypeInt
		if i == 1 {
			typ = value.NVarCharOf(2048)
		}
		if parts[i], err = c.implicit(part, typ); err != nil {
			return nil, err
		}
	}
	return func(f *frame) error {
		var v [3]any
		for i, part := range parts {
			var err error
			if v[i], err = part.eval(f.env(0)); err != nil {
				return err
			}
		}
		number, _ := v[0].(int64)
		text, _ := v[1].(string)
		state, _ := v[2].(int64)
		if number < 50000 {
			return sqlerr.New(35100, "Error number %d in the THROW statement is outside the valid range. Specify an error number in the valid range of 50000 to 2147483647.", number).With(16, 10)
		}
		e := sqlerr.New(int32(number), "%s", text).With(16, uint8(state)) //nolint:gosec // an int, and a state is a byte
		return e.Ends(sqlerr.EndsBatch)
	}, nil
}

func (c *compiler) declareTable(n *ast.DeclareTableVariableStatement) (step, error) {
	name := n.Body.VariableName.Value
	table, err := c.tableDefinition(n.Body.Definition, "", name)
	if err != nil {
		return nil, err
	}
	key := rows.Fold(name)
	_, scalar := c.symbols.scalars[key]
	_, twice := c.symbols.tables[key]
	if scalar || twice {
		return nil, sqlerr.New(134, "The variable name '%s' has already been declared.", name).With(15, 2).Ends(sqlerr.EndsCompilation)
	}
	c.symbols.tables[key] = tableVariable{len(c.symbols.tables), table}
	return func(*frame) (flow, error) { return goOn, nil }, nil
}

func (c *compiler) declareVariables(n *ast.DeclareVariableStatement) (body, error) {
	type initial struct {
		slot int
		from operand
	}
	var initials []initial
	for _, d := range n.Declarations {
		typ, err := c.dataType(d.DataType)
		if err != nil {
			return nil, err
		}
		var from operand
		if d.Value != nil { // before the declaration: a variable is not known in its own initial value
			if from, err = c.scalar(d.Value, nil); err != nil {
				return nil, err
			}
			if from, err = c.implicit(from, typ); err != nil {
				return nil, err
			}
		}
		if err := c.declare(d.VariableName.Value, typ); err != nil {
			return nil, err
		}
		v := c.symbols.scalars[rows.Fold(d.VariableName.Value)]
		if d.Value != nil {
			initials = append(initials, initial{v.slot, from})
		}
	}
	slots := c.slots
	return func(f *frame) error {
		for _, one := range initials {
			v, err := one.from.eval(f.env(slots))
			if err != nil {
				return err
			}
			f.vars[one.slot] = v
			f.session.rowCount = 1
		}
		return nil
	}, nil
}

func (c *compiler) setVariable(n *ast.SetVariableStatement) (body, error) {
	v, err := c.variable(n.Variable.Name)
	if err != nil {
		return nil, err
	}
	from, err := c.scalar(n.Expression, nil)
	if err != nil {
		return nil, err
	}
	if n.AssignmentKind != "Equals" {
		operator := map[string]string{"AddEquals": "Add", "SubtractEquals": "Subtract"}[n.AssignmentKind]
		if from, err = c.binary(operator, c.variableOperand(v), from); err != nil {
			return nil, err
		}
	}
	if from, err = c.implicit(from, v.typ); err != nil {
		return nil, err
	}
	slots := c.slots
	return func(f *frame) error {
		value, err := from.eval(f.env(slots))
		if err != nil {
			return err
		}
		f.vars[v.slot] = value
		f.session.rowCount = 1
		return nil
	}, nil
}

func (c *compiler) setSwitch(n *ast.PredicateSetStatement) body {
	return func(f *frame) error {
		switch n.Options {
		case "NoCount":
			f.session.noCount = n.IsOn
		case "ImplicitTransactions":
			f.session.implicit = n.IsOn
		default:
			f.session.xactAbort = n.IsOn
		}
		f.session.rowCount = 0
		return nil
	}
}

// opening opens a transaction before a change, if there is none and the session wants that. Reads open none here.
func opening(change body) body {
	return func(f *frame) error {
		if s := f.session; s.implicit && s.tx == nil {
			s.begin()
			f.sink.Transaction(TransactionBegun)
		}
		return change(f)
	}
}

func (c *compiler) transaction(node ast.Statement) body {
	return func(f *frame) error {
		s := f.session
		open := s.tx != nil
		switch node.(type) {
		case *ast.BeginTransactionStatement:
			s.begin()
			if !open {
				f.sink.Transaction(TransactionBegun)
			}
		case *ast.CommitTransactionStatement:
			err := s.commitStatement(f.ctx, f.leaf.text)
			if open && s.tx == nil {
				f.sink.Transaction(TransactionCommitted)
			}
			if err != nil {
				return err
			}
		default:
			if !open {
				return sqlerr.NoTransaction("ROLLBACK")
			}
			s.rollbackAnnounced(f.sink)
		}
		s.rowCount = 0
		return nil
	}
}
