package syntax

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

type tokenKind uint8

const (
	tokenWord     tokenKind = iota // a keyword or a plain name
	tokenName                      // [x] or "x"
	tokenVariable                  // @x or @@x
	tokenString                    // 'x' or N'x'
	tokenNumber                    // 1, 1.5, 0x1F
	tokenSign                      // anything else, a character at a time
)

// token is a piece of the text that means something. Its offsets are the parser's: UTF-16 units.
type token struct {
	kind       tokenKind
	text       string
	start, end int // UTF-16 units
	from, to   int // bytes
}

// scan splits text into tokens, leaving out blanks and comments.
func scan(text string) ([]token, error) {
	s := scanner{text: text}
	var tokens []token
	for {
		tok, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return tokens, nil
		}
		tokens = append(tokens, tok)
	}
}

type scanner struct {
	text string
	at   int // bytes
	unit int // UTF-16 units
}

func (s *scanner) rest() string { return s.text[s.at:] }

// skip moves on by n bytes.
func (s *scanner) skip(n int) {
	for _, r := range s.text[s.at : s.at+n] {
		if s.unit++; r > 0xFFFF {
			s.unit++
		}
	}
	s.at += n
}

func (s *scanner) next() (token, bool, error) {
	if err := s.skipBlanks(); err != nil || s.rest() == "" {
		return token{}, false, err
	}
	tok := token{start: s.unit, from: s.at}
	var length int
	var err error
	r, size := utf8.DecodeRuneInString(s.rest())
	switch {
	case r == '\'':
		tok.kind = tokenString
		length, err = s.quoted('\'', 1)
	case (r == 'N' || r == 'n') && strings.HasPrefix(s.rest()[1:], "'"):
		tok.kind = tokenString
		length, err = s.quoted('\'', 2)
	case r == '[':
		tok.kind = tokenName
		length, err = s.quoted(']', 1)
	case r == '"':
		tok.kind = tokenName
		length, err = s.quoted('"', 1)
	case r == '@':
		tok.kind = tokenVariable
		length = span(s.rest(), inName)
	case unicode.IsDigit(r):
		tok.kind = tokenNumber
		length = span(s.rest(), func(r rune) bool { return r == '.' || inName(r) })
	case inName(r):
		tok.kind = tokenWord
		length = span(s.rest(), inName)
	default:
		tok.kind = tokenSign
		length = size
	}
	if err != nil {
		return token{}, false, err
	}
	s.skip(length)
	tok.text, tok.end, tok.to = s.text[tok.from:s.at], s.unit, s.at
	return tok, true, nil
}

func inName(r rune) bool {
	return r == '_' || r == '@' || r == '#' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// span is the length in bytes of the longest prefix whose characters are all in the class.
func span(text string, class func(rune) bool) int {
	if i := strings.IndexFunc(text, func(r rune) bool { return !class(r) }); i >= 0 {
		return i
	}
	return len(text)
}

// quoted is the length in bytes of what begins here and ends with quote; a doubled quote does not end it.
func (s *scanner) quoted(quote byte, skip int) (int, error) {
	text := s.rest()
	for i := skip; i < len(text); i++ {
		if text[i] != quote {
			continue
		}
		if i+1 < len(text) && text[i+1] == quote {
			i++
			continue
		}
		return i + 1, nil
	}
	return 0, sqlerr.Syntax(fmt.Sprintf("%.20s… is not closed", text))
}

func (s *scanner) skipBlanks() error {
	for {
		text := s.rest()
		switch {
		case strings.HasPrefix(text, "--"):
			end := strings.IndexByte(text, '\n')
			if end < 0 {
				end = len(text)
			}
			s.skip(end)
		case strings.HasPrefix(text, "/*"):
			end := strings.Index(text, "*/")
			if end < 0 {
				return sqlerr.Syntax("a comment is not closed")
			}
			if strings.Contains(text[2:end], "/*") {
				return sqlerr.Unsupported("nested comments")
			}
			s.skip(end + 2)
		default:
			blanks := span(text, unicode.IsSpace)
			if blanks == 0 {
				return nil
			}
			s.skip(blanks)
		}
	}
}
