#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a manual page out of what the program says of itself and what people have written.

    generate.py page TABLES.json SETTINGS.oci VERSION PAGE.in    the page, to standard output
    generate.py check TABLES.json SETTINGS.oci DIRECTORY         what the manual lacks; status 1 if anything

TABLES.json is what the program `describe` prints: commands and options as the command line has them. PAGE.in is named after
the page (moat-run.1.in) and holds man(7) macros, with these lines for what is made:

    @summary TEXT        what NAME says; a command's page takes the command's own
    @options             the command's options, or, in moat.1, the global ones
    @commands            the list of commands (moat.1)
    @properties          the properties of the operator's file (moat.json.5)
    @table FILE          a text file beside the page, as it is
    @about NAME          the lines up to @end belong to that option or property, after its first sentence
    @see PAGE(SECTION)…  SEE ALSO

`@about` a thing that there is not, or a page without its options, is an error.
"""
import importlib.util
import json
import os
import re
import sys


class Mistake(Exception):
    """A page that does not fit the program."""


def roff(text):
    """Text as groff takes it literally."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    return '\n'.join('\\&' + line if line[:1] in ("'", '.') else line for line in text.split('\n'))


def bold(text):
    return '\\fB' + roff(text) + '\\fR'


def values(argument):
    """A value's placeholder: names to fill in are italic, words to choose from are bold."""
    parts = re.split(r'([A-Z][A-Z_0-9]*)', argument)
    words = ['\\fI' + roff(p) + '\\fR' if re.fullmatch('[A-Z][A-Z_0-9]*', p) else p for p in parts]
    if '|' in argument and not re.search('[A-Z]', argument):
        return '|'.join(bold(word) for word in argument.split('|'))
    return ''.join(roff(w) if not w.startswith('\\f') else w for w in words)


def sentence(phrase):
    return roff(phrase[:1].upper() + phrase[1:]) + '.'


def load_settings(path):
    """The top object of settings.oci, by the parser that the build itself uses."""
    generator = os.path.join(os.path.dirname(path), 'generate.py')
    spec = importlib.util.spec_from_file_location('oci_generate', generator)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    objects, _ = module.read_description(path)
    return next(o for o in objects.values() if 'top' in o.words)


class Page:
    def __init__(self, path, tables, settings):
        self.path = path
        self.tables, self.settings = tables, settings
        self.title, self.section = os.path.basename(path).removesuffix('.in').rsplit('.', 1)
        name = self.title.removeprefix('moat-')
        self.command = next((c for c in tables['commands'] if c['name'] == name), None) \
            if self.title.startswith('moat-') and self.section == '1' else None
        if self.title.startswith('moat-') and self.section == '1' and not self.command:
            raise Mistake('there is no command ' + name)
        self.about, self.used, self.body, self.seen = {}, set(), [], []
        self.summary = self.command['summary'] if self.command else None
        self.made = set()
        self.read()

    def read(self):
        """Splits the text into body lines and what is said about options and properties."""
        block = None
        with open(self.path, encoding='utf-8') as f:
            for line in f.read().split('\n')[:-1]:
                word, _, rest = line.partition(' ')
                if word == '@about':
                    block = self.about.setdefault(rest, [])
                elif word == '@end':
                    block = None
                elif word == '@summary':
                    self.summary = rest
                elif word == '@see':
                    self.seen = rest.split()
                elif block is not None:
                    block.append(line)
                else:
                    self.body.append(line)
        if not self.summary:
            raise Mistake('@summary is missing')

    def more(self, name):
        self.used.add(name)
        return self.about.get(name, [])

    def options(self):
        out = []
        listed = self.command['options'] if self.command else self.tables['options']
        for option in listed:
            names = [bold('-' + option['short'])] if option['short'] else []
            names.append(bold('--' + option['name']))
            tag = ', '.join(names) + (' ' + values(option['argument']) if option['argument'] else '')
            out += ['.TP', tag, sentence(option['help'])]
            if option['repeats']:
                out.append('May be given more than once.')
            out += self.more(option['name'])
        return out + ['.TP', bold('-h') + ', ' + bold('--help'), 'Show the options, and do nothing else.']

    def commands(self):
        out = []
        for command in self.tables['commands']:
            out += ['.TP', bold('moat-' + command['name']) + '(1)', sentence(command['summary'])]
        return out

    def properties(self):
        out = []
        for name, field in all_properties(self.settings):
            kind = {'string': 'a string', 'bool': 'true or false', 'size': 'bytes, as a number or as a string such as "512M"'}.get(
                field.kind, 'a number')
            if field.values:
                kind = 'one of ' + ', '.join('"%s"' % v for v in field.values)
            elif field.object:
                kind = 'an object'
            if field.shape == 'ARRAY':
                kind = 'an array' + (', each ' + kind if field.values or field.kind != 'string' else ' of strings')
            elif field.shape == 'MAP':
                kind = 'an object; each value: ' + kind
            if 'absolute' in field.flags:
                kind = 'an absolute path'
            if field.range:
                shown = size_text if field.kind == 'size' else str
                kind += ', %s to %s' % tuple(map(shown, field.range))
            if field.default and field.default != '{}':
                kind += '; if not given, ' + default_text(field)
            out += ['.TP', bold(name), sentence(kind)] + self.more(name)
        return out

    def table(self, name):
        with open(os.path.join(os.path.dirname(self.path), name), encoding='utf-8') as f:
            lines = f.read().rstrip('\n')
        return ['.nh', '.ft CR', '.nf', roff(lines), '.fi', '.ft R', '.hy']

    def synopsis(self):
        if not self.command:
            return []
        c = self.command
        line = bold('moat') + ' [\\fIglobal options\\fR] ' + bold(c['name'])
        line += ' [\\fIoptions\\fR]' if c['options'] else ''
        return ['.SH SYNOPSIS', line + (' ' + values(c['arguments']) if c['arguments'] else '')]

    def expand(self, line):
        kinds = {'@options': self.options, '@commands': self.commands, '@properties': self.properties}
        word = line.strip()
        if word in kinds:
            self.made.add(word)
            return kinds[word]()
        if line.startswith('@table '):
            return self.table(line.split()[1])
        if line.startswith('@'):
            raise Mistake('unknown line: ' + line)
        return [line]

    def text(self, version):
        head = ['.\\" Made from %s; do not edit.' % os.path.basename(self.path),
                '.TH %s %s "" "moat %s" "moat manual"' % (self.title.upper().replace('-', '\\-'), self.section, version),
                '.SH NAME', '%s \\- %s' % (self.title.replace('-', '\\-'), roff(self.summary))]
        body = [made for line in self.body for made in self.expand(line) if not line.startswith('.\\"')]
        if self.command and '@options' not in self.made:
            raise Mistake('@options is missing')
        unused = set(self.about) - self.used
        if unused:
            raise Mistake('it tells about what there is not: ' + ', '.join(sorted(unused)))
        see = [re.sub(r'(.*)(\(.*)', lambda m: bold(m[1]) + m[2], page) for page in self.seen]
        tail = ['.SH SEE ALSO', ',\n'.join(see)] if see else []
        return '\n'.join(head + self.synopsis() + body + tail) + '\n'


def size_text(size):
    """Bytes with the greatest unit that leaves a whole number."""
    shift = next((s for s in (40, 30, 20, 10) if size and size % (1 << s) == 0), 0)
    return '%d%s' % (size >> shift, {40: 'T', 30: 'G', 20: 'M', 10: 'K', 0: ''}[shift])


def default_text(field):
    """A default as the file would have it: in settings.oci it is an expression in C."""
    shift = re.fullmatch(r'(\d+)u?l*\s*<<\s*(\d+)', field.default)
    if shift:
        value = int(shift[1]) << int(shift[2])
        return size_text(value) if field.kind == 'size' else str(value)
    return field.default.replace('MOAT_LIBDIR "', '"PREFIX/lib/moat')


def all_properties(top, prefix=''):
    """The properties of an object and of the objects in it, as name.name."""
    for field in top.fields:
        yield prefix + field.name, field
        if field.object:
            yield from all_properties(field.object, prefix + field.name + '.')


def check(tables, settings, directory):
    """What has nobody written about: commands without a page, properties without a word."""
    lacking = []
    for command in tables['commands']:
        if not os.path.exists(os.path.join(directory, 'moat-%s.1.in' % command['name'])):
            lacking.append('command %s: no man/moat-%s.1.in' % (command['name'], command['name']))
    page = Page(os.path.join(directory, 'moat.json.5.in'), tables, settings)
    for name, _ in all_properties(settings):
        if name not in page.about:
            lacking.append('property %s of settings.oci: no "@about %s" in man/moat.json.5.in' % (name, name))
    for line in lacking:
        print(line)
    return 1 if lacking else 0


def main(what, tables_path, settings_path, *rest):
    with open(tables_path, encoding='utf-8') as f:
        tables = json.load(f)
    settings = load_settings(settings_path)
    if what == 'check':
        return check(tables, settings, *rest)
    try:
        sys.stdout.write(Page(rest[1], tables, settings).text(rest[0]))
    except Mistake as mistake:
        print('%s: %s' % (rest[1], mistake), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
