// Scores of the search: Sphinx's own, and a bonus by folder, so that pages for readers come before code and results.
const FOLDER_BONUS = {"guides/": 3, "tutorials/": 3, "reference/": 3, "explanation/": 2, "generated/positions": 3, "generated/parts/": 2, "generated/config": 2, "experiments/": -2, "data/": -1};

var Scorer = {
  score: (result) => {
    const folder = Object.keys(FOLDER_BONUS).find((name) => result[0].startsWith(name));
    return result[4] + (folder === undefined ? 0 : FOLDER_BONUS[folder]);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
