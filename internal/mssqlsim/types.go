package mssqlsim

import (
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// wireKinds are the engine's kinds as they travel. The wire has no varchar: it goes as nvarchar.
var wireKinds = map[value.Kind]tds.Kind{
	value.Bit: tds.Bit, value.TinyInt: tds.TinyInt, value.SmallInt: tds.SmallInt, value.Int: tds.Int, value.BigInt: tds.BigInt,
	value.NVarChar: tds.NVarChar, value.VarChar: tds.NVarChar, value.VarBinary: tds.VarBinary, value.Binary: tds.Binary,
	value.RowVersion: tds.RowVersion, value.UniqueIdentifier: tds.UniqueIdentifier,
	value.DateTimeOffset: tds.DateTimeOffset, value.DateTime2: tds.DateTime2,
}

func wireType(t value.Type) tds.Type {
	wire := tds.Type{Kind: wireKinds[t.Kind], Size: t.Size, Scale: t.Scale}
	if t.Kind == value.VarChar && t.Size > 4000 {
		wire.Size = tds.Max
	}
	return wire
}

// parameter is a parameter of a request as the engine takes it.
func parameter(p tds.Param) (engine.Param, *sqlerr.Error) {
	if p.Type.Kind == tds.Null {
		return engine.Param{Name: p.Name, Type: value.NVarCharOf(1)}, nil // as which the driver declares it
	}
	for kind, wire := range wireKinds {
		if wire == p.Type.Kind && kind != value.VarChar {
			return engine.Param{Name: p.Name, Type: value.Type{Kind: kind, Size: p.Type.Size, Scale: p.Type.Scale}, Value: p.Value}, nil
		}
	}
	return engine.Param{}, sqlerr.Unsupported("a parameter of type %s", p.Type)
}
