"""What a folder of cells shows: a page for a browser, a picture and tables.

python -m experiments.grid.report --out=FOLDER
"""
