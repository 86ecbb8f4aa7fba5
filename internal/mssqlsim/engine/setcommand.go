package engine

import (
	"strconv"
	"time"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// setCommand compiles SET LOCK_TIMEOUT with a number, as its grammar wants it: milliseconds, -1 = without limit.
func (c *compiler) setCommand(n *ast.SetCommandStatement) (body, error) {
	var limits []time.Duration
	for _, command := range n.Commands {
		set, ok := command.(*ast.GeneralSetCommand)
		if !ok {
			return nil, sqlerr.Unsupported("%T", command)
		}
		ms, ok := integerLiteral(set.Parameter)
		if !ok {
			return nil, sqlerr.Unsupported("SET LOCK_TIMEOUT with anything but a number")
		}
		limit := time.Duration(ms) * time.Millisecond
		if ms == -1 {
			limit = locks.Forever
		} else if ms < 0 {
			return nil, sqlerr.Unsupported("SET LOCK_TIMEOUT %d", ms)
		}
		limits = append(limits, limit)
	}
	return func(f *frame) error {
		for _, limit := range limits {
			f.session.lockTimeout = limit
		}
		f.session.rowCount = 0
		return nil
	}, nil
}

// integerLiteral is the value of an integer with or without a sign.
func integerLiteral(node ast.ScalarExpression) (int64, bool) {
	switch n := node.(type) {
	case *ast.IntegerLiteral:
		v, err := strconv.ParseInt(n.Value, 10, 32)
		return v, err == nil
	case *ast.UnaryExpression:
		v, ok := integerLiteral(n.Expression)
		if n.UnaryExpressionType == "Negative" {
			v = -v
		}
		return v, ok
	case *ast.ParenthesisExpression:
		return integerLiteral(n.Expression)
	}
	return 0, false
}
