package engine

import (
	"crypto/rand"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

var systemFunctions = map[string]function{
	"DB_NAME":            {0, 0, named(func(e *env) any { return e.session.node.database })},
	"SUSER_SNAME":        {0, 0, named(func(e *env) any { return e.session.who.name })},
	"USER_NAME":          {0, 0, named(func(e *env) any { return e.session.who.name })},
	"SCHEMA_ID":          {1, 1, schemaID},
	"SCHEMA_NAME":        {1, 1, schemaName},
	"OBJECT_ID":          {1, 2, objectID},
	"DATABASEPROPERTYEX": {2, 2, databaseProperty},
	"SERVERPROPERTY":     {1, 1, serverProperty},
	"NEWID":              {0, 0, newID},
	"XACT_STATE":         {0, 0, xactState},
	"ERROR_NUMBER":       {0, 0, caught(value.TypeInt, func(e *sqlerr.Error) any { return int64(e.Number) })},
	"ERROR_SEVERITY":     {0, 0, caught(value.TypeInt, func(e *sqlerr.Error) any { return int64(e.Severity) })},
	"ERROR_STATE":        {0, 0, caught(value.TypeInt, func(e *sqlerr.Error) any { return int64(e.State) })},
	"ERROR_LINE":         {0, 0, caught(value.TypeInt, func(e *sqlerr.Error) any { return int64(e.Line) })},
	"ERROR_MESSAGE":      {0, 0, caught(value.NVarCharOf(4000), func(e *sqlerr.Error) any { return value.Head(e.Text, 4000) })},
}

func named(of func(*env) any) func(*compiler, []operand) (operand, error) {
	return func(c *compiler, _ []operand) (operand, error) { return c.text(of), nil }
}

// caught is a function that tells of the error of the innermost CATCH; outside of one it is NULL.
func caught(typ value.Type, of func(*sqlerr.Error) any) func(*compiler, []operand) (operand, error) {
	return func(c *compiler, _ []operand) (operand, error) {
		o := operand{typ: typ, eval: func(e *env) (any, error) {
			if len(e.caught) == 0 {
				return nil, nil
			}
			return of(e.caught[len(e.caught)-1]), nil
		}}
		if typ.IsString() {
			o.label = c.stringLabel()
		}
		return o, nil
	}
}

func xactState(*compiler, []operand) (operand, error) {
	return operand{typ: value.TypeSmallInt, eval: func(e *env) (any, error) {
		switch tx := e.session.tx; {
		case tx == nil:
			return int64(0), nil
		case tx.doomed:
			return int64(-1), nil
		}
		return int64(1), nil
	}}, nil
}

func newID(*compiler, []operand) (operand, error) {
	return operand{typ: value.TypeGUID, eval: func(*env) (any, error) {
		id := make([]byte, 16)
		_, err := rand.Read(id)
		id[7], id[8] = id[7]&0x0F|0x40, id[8]&0x3F|0x80 // a random one, by its version
		return id, err
	}}, nil
}

func schemaID(c *compiler, args []operand) (operand, error) {
	arg, err := c.implicit(args[0], value.TypeSysname)
	return onValue(value.TypeInt, label{}, arg, func(e *env, v any) (any, error) {
		if err := e.waitForDDL(); err != nil {
			return nil, err
		}
		catalog, _ := e.session.catalog()
		name, ok := catalog.Schema(v.(string))
		if !ok {
			return nil, nil
		}
		return int64(catalog.Schemas[name]), nil
	}), err
}

func schemaName(c *compiler, args []operand) (operand, error) {
	arg, err := c.implicit(args[0], value.TypeInt)
	return onValue(value.TypeSysname, c.stringLabel(), arg, func(e *env, v any) (any, error) {
		catalog, _ := e.session.catalog()
		for name, id := range catalog.Schemas {
			if int64(id) == v.(int64) {
				return name, nil
			}
		}
		return nil, nil
	}), err
}

// objectID is OBJECT_ID of a table: NULL if there is none or the user may know of none. It waits for whoever is
// creating or dropping it just now.
func objectID(c *compiler, args []operand) (operand, error) {
	arg, err := c.implicit(args[0], value.TypeNVarCharMax)
	if err != nil {
		return arg, err
	}
	kind := constant(value.TypeSysname, "U")
	if len(args) == 2 {
		if kind, err = c.implicit(args[1], value.TypeSysname); err != nil {
			return kind, err
		}
	}
	return onValue(value.TypeInt, label{}, arg, func(e *env, v any) (any, error) {
		k, err := kind.eval(e)
		if err != nil {
			return nil, err
		}
		if k != nil && !sameName(k.(string), "U") {
			return nil, sqlerr.Unsupported("OBJECT_ID of anything but a table")
		}
		schema, name, ok := split(v.(string))
		if !ok {
			return nil, nil
		}
		if err := e.lock(e.statementLocks(), objectLock(schema, name), locks.Shared, e.session.lockTimeout); err != nil {
			return nil, err
		}
		catalog, _ := e.session.catalog()
		t := catalog.Table(schema, name)
		if t == nil || !e.session.who.sees(catalog, t) {
			return nil, nil
		}
		return int64(t.ID), nil
	}), err
}

// properties evaluates arguments as names of a property.
func properties(c *compiler, args []operand, of func(e *env, names []string) (any, error)) (operand, error) {
	for i := range args {
		arg, err := c.implicit(args[i], value.TypeNVarCharMax)
		if err != nil {
			return arg, err
		}
		args[i] = arg
	}
	return operand{eval: func(e *env) (any, error) {
		names := make([]string, len(args))
		for i, arg := range args {
			v, err := arg.eval(e)
			if err != nil || v == nil {
				return nil, err
			}
			names[i] = rows.Fold(v.(string))
		}
		return of(e, names)
	}}, nil
}

// databaseProperty is DATABASEPROPERTYEX, which on a real server is a sql_variant and here an nvarchar.
func databaseProperty(c *compiler, args []operand) (operand, error) {
	o, err := properties(c, args, func(e *env, names []string) (any, error) {
		if names[0] != rows.Fold(e.session.node.database) {
			return nil, nil
		}
		switch names[1] {
		case "updateability":
			if e.session.node.State() == Online {
				return "READ_WRITE", nil
			}
			return "READ_ONLY", nil
		case "status":
			return "ONLINE", nil
		case "collation":
			return e.session.node.collation.Name, nil
		}
		return nil, sqlerr.Unsupported("the database property %s", names[1])
	})
	o.typ, o.label = value.TypeSysname, c.stringLabel()
	return o, err
}

// serverProperty is SERVERPROPERTY, an nvarchar here too. What SQL Server does not know is NULL.
func serverProperty(c *compiler, args []operand) (operand, error) {
	o, err := properties(c, args, func(e *env, names []string) (any, error) {
		switch names[0] {
		case "babelfish":
			return nil, nil
		case "productversion":
			return "16.0.4135.4", nil
		case "productmajorversion":
			return "16", nil
		case "engineedition":
			return "3", nil
		case "edition":
			return "Developer Edition (64-bit)", nil
		case "servername":
			return e.session.node.name, nil
		case "collation":
			return e.session.node.collation.Name, nil
		}
		return nil, sqlerr.Unsupported("the server property %s", names[0])
	})
	o.typ, o.label = value.TypeSysname, c.stringLabel()
	return o, err
}
