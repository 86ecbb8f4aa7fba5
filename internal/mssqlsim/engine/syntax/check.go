package syntax

import (
	"reflect"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// checker walks a tree by reflection. It refuses what is not in the list of supported nodes, and notes which tokens
// of the text the tree accounts for.
type checker struct {
	tokens  []token
	covered map[int]int // start of a leaf to its end
}

func (c *checker) check(batch *ast.Batch) error {
	if err := c.walk(reflect.ValueOf(batch)); err != nil {
		return err
	}
	return c.account()
}

func (c *checker) walk(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return c.walk(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.walk(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return c.walkNode(v)
	default: // a string or a flag: its owner's field was allowed
	}
	return nil
}

func (c *checker) walkNode(v reflect.Value) error {
	name := v.Type().Name()
	fields, known := supported[name]
	if !known {
		return sqlerr.Unsupported("%s", name)
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		value := v.Field(i)
		if field.Name == "Fragment" || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
			continue
		}
		allowed, listed := fields[field.Name]
		if !listed {
			return sqlerr.Unsupported("%s of %s", field.Name, name)
		}
		if allowed != "" && !strings.Contains(" "+allowed+" ", " "+value.String()+" ") {
			return sqlerr.Unsupported("%s = %v in %s", field.Name, value, name)
		}
		if err := c.walk(value); err != nil {
			return err
		}
	}
	if leaf(name) {
		f := v.FieldByName("Fragment").Interface().(ast.Fragment) //nolint:forcetypeassert // every leaf has one
		c.covered[f.StartOffset] = max(c.covered[f.StartOffset], f.EndOffset())
	}
	return nil
}

func leaf(name string) bool {
	switch name {
	case "Identifier", "VariableReference", "GlobalVariableExpression", "TableHint", "ParameterlessCall":
		return true
	}
	return strings.HasSuffix(name, "Literal")
}

// account finds a token that the parser has dropped. Names, variables and literals must be in the tree, and a plain
// word must be in the tree or a keyword of the supported statements. One node is one token.
func (c *checker) account() error {
	for _, tok := range c.tokens {
		if end, ok := c.covered[tok.start]; ok && end == tok.end {
			continue
		}
		switch tok.kind {
		case tokenSign:
			const signs = ".,;()=<>!+-*/:"
			if !strings.Contains(signs, tok.text) {
				return sqlerr.Unsupported("%q", tok.text)
			}
		case tokenWord:
			if _, known := keywords[strings.ToUpper(tok.text)]; !known {
				return sqlerr.Unsupported("%q: the parser makes nothing of it", tok.text)
			}
		default:
			return sqlerr.Unsupported("%s: the parser makes nothing of it", tok.text)
		}
	}
	return nil
}
