package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// execute compiles EXEC ('text') and EXEC of the two procedures that there are.
func (c *compiler) execute(n *ast.ExecuteSpecification, text string) (body, error) {
	// Without EXEC, a name at the start of a statement may be a word that the parser did not expect there.
	if !strings.HasPrefix(strings.ToUpper(text), "EXEC") {
		return nil, sqlerr.Unsupported("a statement that begins with %q", strings.Fields(text)[0])
	}
	switch entity := n.ExecutableEntity.(type) {
	case *ast.ExecutableStringList:
		if n.Variable != nil {
			return nil, sqlerr.Syntax("EXEC of a text has no result")
		}
		return c.executeText(entity)
	case *ast.ExecutableProcedureReference:
		return c.procedure(n.Variable, entity)
	}
	return nil, sqlerr.Unsupported("%T", n.ExecutableEntity)
}

// executeText compiles EXEC ('text'): a batch of its own, with variables of its own, whose errors a TRY around the
// EXEC catches, those of its compilation too.
func (c *compiler) executeText(n *ast.ExecutableStringList) (body, error) {
	var parts []operand
	for _, node := range n.Strings {
		o, err := c.scalar(node, nil)
		if err != nil {
			return nil, err
		}
		if o, err = c.implicit(o, value.TypeNVarCharMax); err != nil {
			return nil, err
		}
		parts = append(parts, o)
	}
	return func(f *frame) error {
		values, err := evaluate(f.env(0), parts)
		if err != nil {
			return err
		}
		var text strings.Builder
		for _, v := range values {
			if s, ok := v.(string); ok {
				text.WriteString(s)
			}
		}
		child := &frame{session: f.session, ctx: f.ctx, sink: f.sink, try: f.try}
		err = child.batch(text.String(), nil)
		var e *sqlerr.Error
		if errors.As(err, &e) && e.Scope == sqlerr.EndsCompilation {
			// It ends the inner batch only.
			return e.Ends(sqlerr.EndsStatement)
		}
		return err
	}, nil
}

// argument is a parameter of a procedure with its default.
type argument struct {
	name     string
	typ      value.Type
	fallback any
}

func (c *compiler) procedure(result *ast.VariableReference, n *ast.ExecutableProcedureReference) (body, error) {
	if n.ProcedureReference.ProcedureReference == nil {
		return nil, sqlerr.Unsupported("EXEC of a variable")
	}
	name := rows.Fold(n.ProcedureReference.ProcedureReference.Name.BaseIdentifier.Value)
	resource := argument{"@resource", value.NVarCharOf(255), nil}
	owner := argument{"@lockowner", value.NVarCharOf(32), "Transaction"}
	var arguments []argument
	var run func(f *frame, args []any) (int32, error)
	switch name {
	case "sp_getapplock":
		arguments = []argument{resource, {"@lockmode", value.NVarCharOf(32), nil}, owner, {"@locktimeout", value.TypeInt, nil}}
		run = func(f *frame, args []any) (int32, error) { return f.getAppLock(args) }
	case "sp_releaseapplock":
		arguments = []argument{resource, owner}
		run = func(f *frame, args []any) (int32, error) { return f.releaseAppLock(args) }
	default:
		return nil, sqlerr.Unsupported("the procedure %s", name)
	}
	operands, err := c.arguments(arguments, n.Parameters)
	if err != nil {
		return nil, err
	}
	slot := -1
	if result != nil {
		v, err := c.variable(result.Name)
		if err != nil {
			return nil, err
		}
		if !v.typ.IsInteger() {
			return nil, sqlerr.NoConversion("int", v.typ.Name())
		}
		slot = v.slot
	}
	return func(f *frame) error {
		args, err := evaluate(f.env(0), operands)
		if err != nil {
			return err
		}
		code, err := run(f, args)
		if err != nil {
			return err
		}
		f.session.rowCount = 0
		if slot >= 0 {
			f.vars[slot] = int64(code)
		}
		return nil
	}, nil
}

// arguments puts parameters into the order of their declaration.
func (c *compiler) arguments(declared []argument, given []*ast.ExecuteParameter) ([]operand, error) {
	operands := make([]operand, len(declared))
	for i, a := range declared {
		operands[i] = constant(a.typ, a.fallback)
	}
	for i, p := range given {
		at := i
		if p.Variable != nil {
			at = -1
			for k, a := range declared {
				if a.name == rows.Fold(p.Variable.Name) {
					at = k
				}
			}
		}
		if at < 0 || at >= len(declared) {
			return nil, sqlerr.Unsupported("this parameter of the procedure")
		}
		value := p.ParameterValue
		if word, ok := value.(*ast.IdentifierLiteral); ok { // a bare word is a string
			value = &ast.StringLiteral{Fragment: word.Fragment, Value: word.Value, IsNational: true}
		}
		o, err := c.scalar(value, nil)
		if err != nil {
			return nil, err
		}
		if operands[at], err = c.implicit(o, declared[at].typ); err != nil {
			return nil, err
		}
	}
	return operands, nil
}

// What sp_getapplock returns.
const (
	appLockAtOnce    = 0
	appLockAfterWait = 1
	appLockTimedOut  = -1
	appLockDeadlock  = -3
	appLockInvalid   = -999
)

// appLockOwner returns who owns an application lock: the transaction or the session.
func (f *frame) appLockOwner(owner any) (*locks.Owner, bool) {
	name, _ := owner.(string)
	switch {
	case strings.EqualFold(name, "Session"):
		return f.session.whole, true
	case strings.EqualFold(name, "Transaction") && f.session.tx != nil:
		return f.session.tx.locks, true
	}
	return nil, false
}

// appLock is an application lock. Its name is compared by its bytes, whatever the collation.
func appLock(name any) locks.Resource {
	text, _ := name.(string)
	return locks.Resource{Space: "application", Key: text}
}

func (f *frame) getAppLock(args []any) (int32, error) {
	mode := map[string]locks.Mode{"shared": locks.Shared, "update": locks.Update, "exclusive": locks.Exclusive}
	word, _ := args[1].(string)
	wanted, known := mode[rows.Fold(word)]
	owner, ok := f.appLockOwner(args[2])
	if args[0] == nil || !known || !ok {
		if word != "" && !known {
			return 0, sqlerr.Unsupported("the lock mode %s", word)
		}
		return appLockInvalid, nil
	}
	resource := appLock(args[0])
	if other := f.otherAppLockOwner(owner); other != nil && other.Holds(resource) != 0 {
		return 0, sqlerr.Unsupported("an application lock owned by the session and by its transaction")
	}
	timeout := f.session.lockTimeout
	if ms, given := args[3].(int64); given {
		timeout = time.Duration(ms) * time.Millisecond
		if ms < 0 {
			timeout = locks.Forever
		}
	}
	err := owner.Lock(f.ctx, resource, wanted, 0)
	code := int32(appLockAtOnce)
	if errors.Is(err, locks.ErrTimeout) && timeout != 0 {
		err = owner.Lock(f.ctx, resource, wanted, timeout)
		code = appLockAfterWait
	}
	switch {
	case errors.Is(err, locks.ErrTimeout):
		return appLockTimedOut, nil
	case errors.Is(err, locks.ErrDeadlock):
		return appLockDeadlock, nil
	case err != nil:
		return 0, context.Cause(f.ctx)
	}
	return code, nil
}

func (f *frame) otherAppLockOwner(owner *locks.Owner) *locks.Owner {
	if owner != f.session.whole {
		return f.session.whole
	}
	if f.session.tx != nil {
		return f.session.tx.locks
	}
	return nil
}

func (f *frame) releaseAppLock(args []any) (int32, error) {
	owner, ok := f.appLockOwner(args[1])
	resource := appLock(args[0])
	if !ok || args[0] == nil || owner.Holds(resource) == 0 {
		name, _ := args[0].(string)
		return appLockInvalid, sqlerr.New(1223, "Cannot release the application lock (Database Principal: 'public', Resource: '%s') because it is not currently held.", name)
	}
	owner.Unlock(resource, owner.Holds(resource))
	return 0, nil
}
