package engine

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// openJSON compiles OPENJSON(text) WITH (column type 'path', …) over an array of objects or of arrays, in lax mode: what
// is missing is NULL. Without WITH it yields key, value and type.
func (c *compiler) openJSON(s *source, n *ast.OpenJsonTableReference, outer *scope) error {
	text, err := c.scalar(n.Variable, outer)
	if err != nil {
		return err
	}
	if text, err = c.implicit(text, value.TypeNVarCharMax); err != nil {
		return err
	}
	s.alias = "OPENJSON"
	if n.Alias != nil {
		s.alias = n.Alias.Value
	}
	s.fixed = text.refs == 0
	pick, err := c.jsonColumns(s, n.SchemaDeclarationItems)
	if err != nil {
		return err
	}
	s.list = func(e *env) ([]rows.Row, error) {
		v, err := text.eval(e)
		if err != nil || v == nil {
			return nil, err // NULL has no rows
		}
		elements, err := jsonElements(v.(string))
		if err != nil {
			return nil, err
		}
		list := make([]rows.Row, len(elements))
		for i, element := range elements {
			if list[i], err = pick(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil
}

// jsonElement is an element of the array that OPENJSON reads.
type jsonElement struct {
	key   string
	text  string
	value any
}

func jsonElements(text string) ([]jsonElement, error) {
	if !json.Valid([]byte(text)) {
		return nil, sqlerr.BadJSON()
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, sqlerr.Unsupported("OPENJSON of anything but an array")
	}
	elements := make([]jsonElement, len(list))
	for i, raw := range list {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		elements[i] = jsonElement{key: strconv.Itoa(i), text: string(raw)}
		if err := decoder.Decode(&elements[i].value); err != nil {
			return nil, sqlerr.BadJSON()
		}
	}
	return elements, nil
}

// jsonColumns sets the columns of the source and returns what makes a row of an element.
func (c *compiler) jsonColumns(s *source, items []*ast.SchemaDeclarationItemOpenjson) (func(jsonElement) (rows.Row, error), error) {
	if len(items) == 0 {
		binary, _ := value.FindCollation(value.BinaryCollation)
		s.columns = []rows.Column{
			{Name: "key", Type: value.NVarCharOf(4000), Collation: binary},
			{Name: "value", Type: value.TypeNVarCharMax, Nullable: true, Collation: c.session.node.collation},
			{Name: "type", Type: value.TypeTinyInt},
		}
		return jsonDefault, nil
	}
	var paths [][]string
	for _, item := range items {
		typ, err := c.dataType(item.ColumnDefinition.DataType)
		if err != nil {
			return nil, err
		}
		name := item.ColumnDefinition.ColumnIdentifier.Value
		column := rows.Column{Name: name, Type: typ, Nullable: true}
		if typ.IsString() {
			column.Collation = c.session.node.collation
			if spanned, ok := item.ColumnDefinition.DataType.(*ast.SqlDataTypeReference); ok {
				collation, found, err := c.collation(spanned)
				if err != nil {
					return nil, err
				}
				if found {
					column.Collation = collation
				}
			}
		}
		path := []string{name}
		if item.Mapping != nil {
			literal, ok := item.Mapping.(*ast.StringLiteral)
			if !ok {
				return nil, sqlerr.Unsupported("a path that is no literal")
			}
			if path, err = jsonPath(literal.Value); err != nil {
				return nil, err
			}
		}
		s.columns = append(s.columns, column)
		paths = append(paths, path)
	}
	columns := s.columns
	return func(element jsonElement) (rows.Row, error) {
		row := make(rows.Row, len(columns))
		for i, column := range columns {
			v, err := jsonValue(element.value, paths[i], column)
			if err != nil {
				return nil, err
			}
			row[i] = v
		}
		return row, nil
	}, nil
}

// jsonPath reads $.name and $[0].
func jsonPath(text string) ([]string, error) {
	rest := strings.TrimSpace(strings.TrimPrefix(text, "lax "))
	if !strings.HasPrefix(rest, "$") {
		return nil, sqlerr.Unsupported("the path %s", text)
	}
	var path []string
	for rest = rest[1:]; rest != ""; {
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			if end == 1 || strings.ContainsAny(rest[1:end], `"*$ `) {
				return nil, sqlerr.Unsupported("the path %s", text)
			}
			path, rest = append(path, rest[1:end]), rest[end:]
		case '[':
			number, after, ok := strings.Cut(rest[1:], "]")
			if _, err := strconv.ParseUint(number, 10, 31); err != nil || !ok {
				return nil, sqlerr.Unsupported("the path %s", text)
			}
			path, rest = append(path, "["+number), after
		default:
			return nil, sqlerr.Unsupported("the path %s", text)
		}
	}
	return path, nil
}

// jsonValue is what a path leads to, as a value of the column. Objects and arrays are NULL there.
func jsonValue(element any, path []string, column rows.Column) (any, error) {
	for _, part := range path {
		switch at := element.(type) {
		case map[string]any:
			element = at[part]
		case []any:
			index, err := strconv.Atoi(strings.TrimPrefix(part, "["))
			if err != nil || part[0] != '[' || index >= len(at) {
				return nil, nil //nolint:nilerr // a path that leads nowhere is NULL
			}
			element = at[index]
		default:
			return nil, nil
		}
	}
	from := value.TypeNVarCharMax
	var v any
	switch x := element.(type) {
	case string:
		v = x
	case json.Number:
		v = x.String()
	case bool:
		v, from = x, value.TypeBit
		if column.Type.IsString() {
			v, from = strconv.FormatBool(x), value.TypeNVarCharMax
		}
	default:
		return nil, nil
	}
	if column.Type.IsString() {
		if fits, _ := value.Fit(v, column.Type); !fits {
			return nil, sqlerr.Unsupported("a value in OPENJSON that is longer than its column %s", column.Name)
		}
	}
	if column.Type.IsBinary() {
		return nil, sqlerr.Unsupported("a binary column in OPENJSON")
	}
	return value.Convert(v, from, column.Type)
}

// jsonDefault is a row of OPENJSON without WITH.
func jsonDefault(element jsonElement) (rows.Row, error) {
	kind, text := int64(0), any(nil)
	switch x := element.value.(type) {
	case nil:
	case string:
		kind, text = 1, x
	case json.Number:
		kind, text = 2, element.text
	case bool:
		kind, text = 3, element.text
	case []any:
		kind, text = 4, element.text
	default:
		kind, text = 5, element.text
	}
	return rows.Row{element.key, text, kind}, nil
}
