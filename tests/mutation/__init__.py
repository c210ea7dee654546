"""Mutation testing, `make mutants MODULE=numjax/heads`: does a test fail for each small change of a module?"""
