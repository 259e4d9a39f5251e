package redlock_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/goredlock/redlock"

// layers says what the non-test files of each package directory may import
// besides the standard library: packages of this module by their directory,
// packages of others by a path that also covers everything below it. Imports
// point downwards only.
var layers = map[string][]string{
	".":                  {"engine"},
	"engine":             {"conn", "resp", "github.com/valyala/bytebufferpool", "golang.org/x/sys"},
	"conn":               {"resp", "golang.org/x/sys"},
	"resp":               {},
	"fakeredis":          {"github.com/tidwall/redcon", "github.com/yuin/gopher-lua"},
	"internal/redisproc": {},
	"bench":              {anything},
}

// testLayers does the same for the test files of the packages where it
// matters. fakeredis must not share a line of RESP with what it is there to
// test, or one mistake would hide another.
var testLayers = map[string][]string{
	"fakeredis": append([]string{"fakeredis", "internal/redisproc", "github.com/stretchr/testify"}, layers["fakeredis"]...),
}

// shipped is what a program that imports redlock may compile, besides the
// standard library: packages of this module, and modules of others.
var (
	shippedPackages = []string{".", "engine", "conn", "resp"}
	shippedModules  = []string{modulePath, "github.com/valyala/bytebufferpool", "golang.org/x/sys"}
)

const anything = "*"

func TestImportsPointDownwards(t *testing.T) {
	problems, err := checkLayers(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestUsersCompileNothingElse(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps",
				"-f", "{{if not .Standard}}{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}{{end}}", ".")
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, stderr.String())

			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			require.Contains(t, lines, modulePath+" "+modulePath)
			for _, line := range lines {
				pkg, module, _ := strings.Cut(line, " ")
				require.Contains(t, shippedModules, module, "every user would compile %s", pkg)
				if module == modulePath {
					require.Contains(t, shippedPackages, within(pkg), "every user would compile %s", pkg)
				}
			}
		})
	}
}

// checkLayers returns one line for each import in the tree that the tables do
// not allow, and one for each package directory that they do not know.
func checkLayers(tree fs.FS) (problems []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && ignoredDir(tree, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		found, err := checkFile(tree, name)
		problems = append(problems, found...)
		return err
	})
	slices.Sort(problems)
	return slices.Compact(problems), err
}

// ignoredDir reports whether the go command ignores the directory or takes it
// for another module, such as bench/peers.
func ignoredDir(tree fs.FS, name string) bool {
	if base := path.Base(name); base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" {
		return true
	}
	_, err := fs.Stat(tree, path.Join(name, "go.mod"))
	return err == nil
}

func checkFile(tree fs.FS, name string) (problems []string, err error) {
	dir := path.Dir(name)
	allowed, known := layers[dir]
	if !known {
		return []string{fmt.Sprintf("package directory %q is unknown: add it to layers in layers_test.go, with what it may import", dir)}, nil
	}
	if strings.HasSuffix(name, "_test.go") {
		if allowed, known = testLayers[dir]; !known {
			return nil, nil
		}
	}
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range file.Imports {
		pkg, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if !permits(allowed, pkg) {
			problems = append(problems, fmt.Sprintf("%s must not import %s", name, pkg))
		}
	}
	return problems, nil
}

// permits reports whether pkg is in the standard library or in allowed.
func permits(allowed []string, pkg string) bool {
	if first, _, _ := strings.Cut(pkg, "/"); !strings.Contains(first, ".") {
		return true // only the standard library has no dot there
	}
	if slices.Contains(allowed, anything) {
		return true
	}
	if dir := within(pkg); dir != "" {
		return slices.Contains(allowed, dir)
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		return pkg == a || strings.HasPrefix(pkg, a+"/")
	})
}

// within returns the directory of a package of this module, "" for others.
func within(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	dir, ok := strings.CutPrefix(pkg, modulePath+"/")
	if !ok {
		return ""
	}
	return dir
}

func TestLayersAreHeld(t *testing.T) {
	for _, tc := range []struct {
		name, file, pkg string
		want            string
	}{
		{"downwards", "engine/a.go", modulePath + "/conn", ""},
		{"upwards", "conn/a.go", modulePath + "/engine", "conn/a.go must not import " + modulePath + "/engine"},
		{"over a layer", "a.go", modulePath + "/resp", "a.go must not import " + modulePath + "/resp"},
		{"to the root", "engine/a.go", modulePath, "engine/a.go must not import " + modulePath},
		{"standard library", "resp/a.go", "net/http", ""},
		{"below a third party's path", "conn/a.go", "golang.org/x/sys/unix", ""},
		{"beside a third party's path", "conn/a.go", "golang.org/x/system", "conn/a.go must not import golang.org/x/system"},
		{"third party", "resp/a.go", "github.com/tidwall/redcon", "resp/a.go must not import github.com/tidwall/redcon"},
		{"from a test", "resp/a_test.go", "github.com/tidwall/redcon", ""},
		{"the fake, from a test", "fakeredis/a_test.go", modulePath + "/resp", "fakeredis/a_test.go must not import " + modulePath + "/resp"},
		{"the fake, over the root", "fakeredis/a_test.go", modulePath, "fakeredis/a_test.go must not import " + modulePath},
		{"benchmarks", "bench/a.go", modulePath + "/fakeredis", ""},
		{"another module", "bench/peers/a.go", "example.com/peer", ""},
		{"test data", "resp/testdata/a.go", "example.com/peer", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			problems, err := checkLayers(fstest.MapFS{
				tc.file:              {Data: fmt.Appendf(nil, "package p\n\nimport _ %q\n", tc.pkg)},
				"bench/peers/go.mod": {},
			})
			require.NoError(t, err)
			require.Equal(t, tc.want, strings.Join(problems, "\n"))
		})
	}
	problems, err := checkLayers(fstest.MapFS{"new/a.go": {}, "new/b_test.go": {}})
	require.NoError(t, err)
	require.Len(t, problems, 1, "one line for a directory, not one for each file")
	require.Contains(t, problems[0], `"new"`)
	require.Contains(t, problems[0], "layers_test.go")
}
