package leasehold_test

import (
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/aaravsoft/leasehold"

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath, Dir, Doc string
	GoFiles, Imports     []string
	TestImports          []string
	XTestImports         []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		require.NoError(t, dec.Decode(&p))
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

func (p pkg) name() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// mayImport is the architecture: what each package's own code may import of this module. A package that is not listed may
// import what it likes; nothing may import it but its like (examples, commands, tests).
var mayImport = map[string][]string{
	"":                    {},
	"store":               {},
	"store/memory":        {"store"},
	"store/sqlite":        {"store"},
	"store/mssql":         {"store"},
	"store/breaker":       {"store"},
	"store/storetest":     {"store"},
	"internal/clock":      {},
	"internal/bounded":    {"store"},
	"internal/unclassed":  {"store"},
	"internal/faultstore": {"store"},
	"lease":               {"store", "internal/bounded", "internal/clock"},
	"guard":               {"store", "internal/clock", "internal/unclassed"},
	"heartbeat":           {"store", "internal/bounded", "internal/clock"},
	"mutex":               {"store", "store/breaker", "guard", "heartbeat", "internal/bounded", "internal/clock", "internal/unclassed"},
	"mutex/health":        {"mutex", "store"},
	"internal/procgroup":  {},
}

// onlyIn says where a foreign module may be imported by code that is not a test.
var onlyIn = map[string][]string{
	"github.com/microsoft/go-mssqldb": {"store/mssql", "internal/mssqlsim", "cmd"}, // cmd: azuread, which importers are spared
	"modernc.org/sqlite":              {"store/sqlite"},
	"github.com/sony/gobreaker":       {"store/breaker"},
	"github.com/sqlc-dev/teesql":      {"internal/mssqlsim"},
	"github.com/spf13/cobra":          {"cmd"},
	"golang.org/x/sys":                {"internal/clock", "internal/procgroup", "store/sqlite", "cmd"},
	"github.com/stretchr/testify":     {"store/storetest", "internal/faultstore", "internal/mssqlsim", "chaos_test"},
	"testing":                         {"store/storetest", "internal/faultstore", "internal/mssqlsim", "chaos_test"},
}

func within(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := p.name()
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok {
				if allowed, listed := mayImport[name]; listed {
					assert.Contains(t, allowed, own, "%q must not import %q", name, own)
				}
				for _, testOnly := range []string{"store/storetest", "internal/faultstore", "internal/mssqlsim", "chaos_test"} {
					if within(own, []string{testOnly}) {
						assert.True(t, within(name, []string{testOnly}), "%q is for tests: %q must not import it", own, name)
					}
				}
				continue
			}
			for foreign, folders := range onlyIn {
				if imp == foreign || strings.HasPrefix(imp, foreign+"/") {
					assert.True(t, within(name, folders), "%q must not import %q: only %v may", name, imp, folders)
				}
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 {
			assert.NotEmpty(t, p.Doc, "%q has no package comment", p.name())
		}
	}
}

func TestNoReplace(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	assert.NotContains(t, string(mod), "replace", "users would not get the replaced module")
	assert.NotContains(t, string(mod), "golangci", "development tools live in tools/go.mod, outside of the users' module graph")
}

// TestExportedNames holds the face of the packages that users import against a golden file, so that a name is added or
// taken away on purpose. After a wanted change: UPDATE_GOLDEN=1 go test -run TestExportedNames .
func TestExportedNames(t *testing.T) {
	var b strings.Builder
	for _, p := range packages(t) {
		name := p.name()
		if name == "" || strings.Contains(name, "internal") || within(name, []string{"cmd", "examples", "benchmarks", "chaos_test"}) {
			continue
		}
		b.WriteString(name + "\n")
		for _, line := range exported(t, p) {
			b.WriteString("\t" + line + "\n")
		}
	}
	golden := filepath.Join("testdata", "exported.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "the exported names have changed; see the comment of this test")
}

// exported lists a package's exported declarations, a line each, and insists that each has a comment.
func exported(t *testing.T, p pkg) []string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, f := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	require.NoError(t, err)
	var lines []string
	add := func(line, comment string) {
		assert.NotEmpty(t, comment, "%s: %s has no comment", p.name(), line)
		lines = append(lines, line)
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			decl := *f.Decl
			decl.Body, decl.Doc = nil, nil
			var sig strings.Builder
			require.NoError(t, format.Node(&sig, fset, &decl))
			comment := f.Doc
			if f.Recv != "" && slices.Contains([]string{"Error", "Unwrap", "String"}, f.Name) {
				comment = "as everywhere"
			}
			add(strings.Join(strings.Fields(sig.String()), " "), comment)
		}
	}
	values := func(kind string, list []*doc.Value) {
		for _, v := range list {
			for _, n := range v.Names {
				if token.IsExported(n) {
					lines = append(lines, kind+" "+n)
				}
			}
		}
	}
	values("const", d.Consts)
	values("var", d.Vars)
	funcs(d.Funcs)
	for _, typ := range d.Types {
		lines = append(lines, "type "+typ.Name)
		values("const", typ.Consts)
		values("var", typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	slices.Sort(lines)
	return lines
}

// TestTree looks for what must not be committed.
func TestTree(t *testing.T) {
	forbidden := []string{"/work" + "/", "/ro" + "ot/", "prox" + "y.golang", "regis" + "try.npmjs"}
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Base(name) == "go.sum" || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, f := range forbidden {
			assert.NotContains(t, string(text), f, "%s names a path of a machine or a registry", name)
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			assert.LessOrEqual(t, strings.Count(string(text), "\n"), 450, "%s is long: one concept a file", name)
		}
		return nil
	}))
}

// TestFailureModes holds docs/failure-modes.md against the tests: every id in it stands in the name of a subtest.
func TestFailureModes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "failure-modes.md"))
	require.NoError(t, err)
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		isTest := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".txtar") ||
			strings.HasPrefix(filepath.ToSlash(name), "store/storetest/")
		if err != nil || d.IsDir() || !isTest {
			return err
		}
		src, err := os.ReadFile(name)
		tests.WriteString(name)
		tests.Write(src)
		return err
	}))
	ids := regexp.MustCompile(`(?m)^\| ([A-Z]{3}-\d\d) `).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, ids)
	for _, id := range ids {
		assert.Contains(t, tests.String(), id[1], "no test carries the id")
	}
}

// TestLimitsAreWritten is about what readers must not believe.
func TestLimitsAreWritten(t *testing.T) {
	t.Run("OBS-03 what is not promised stands where users read", func(t *testing.T) {
		for file, phrases := range map[string][]string{
			"README.md":                      {"What is not promised", "paused", "failover", "clock", "token", "fairness"},
			filepath.Join("mutex", "doc.go"): {"What is not", "stopped", "failover", "clock", "Token", "fair"},
		} {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, p := range phrases {
				assert.Contains(t, string(text), p, file)
			}
		}
	})
}
