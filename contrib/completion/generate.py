#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Makes the completion of moat's command line for bash.

    generate.py TABLES.json TEMPLATE    the file, to standard output

TABLES.json is what man/describe.c prints. In the template, lines @options@, @values@, @commands@, @arguments@, @first@ and
@signals@ become branches of case statements, or words.
"""
import json
import sys


def names(option):
    return ['--' + option['name']] + (['-' + option['short']] if option['short'] else [])


def main(tables_path, template_path):
    with open(tables_path, encoding='utf-8') as f:
        tables = json.load(f)
    levels = [('', tables['options'])] + [(c['name'], c['options']) for c in tables['commands']]
    made = {
        '@options@': ["'%s') echo '%s --help -h' ;;" % (name, ' '.join(n for o in options for n in names(o)))
                      for name, options in levels],
        '@values@': ["%s) echo '%s' ;;" % ('|'.join("'%s %s'" % (name, n) for n in names(o)), o['argument'])
                     for name, options in levels for o in options if o['argument']],
        '@arguments@': ["'%s') echo '%s' ;;" % (c['name'], c['arguments']) for c in tables['commands'] if c['arguments']],
        '@first@': ["%s) return 0 ;;" % '|'.join(c['name'] for c in tables['commands'] if c['options_first'])],
        '@commands@': [' '.join(c['name'] for c in tables['commands'])],
        '@signals@': [' '.join(tables['signals'])],
    }
    with open(template_path, encoding='utf-8') as f:
        for line in f:
            word = line.strip()
            indent = line[:len(line) - len(line.lstrip())]
            for text in made.get(word, [line.strip('\n').removeprefix(indent)]):
                print((indent + text).rstrip())


if __name__ == '__main__':
    main(*sys.argv[1:])
