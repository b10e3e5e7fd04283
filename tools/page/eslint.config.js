// Rules for the scripts of the labeling page. Names that do not exist are TypeScript's to find.

import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    files: ["src/polyad/app/static/*.js"],
    languageOptions: { ecmaVersion: 2022, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "no-undef": "off",
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-shadow": "error",
      "no-implicit-globals": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-self-compare": "error",
      "no-unmodified-loop-condition": "error",
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "array-callback-return": "error",
      "consistent-return": "error",
      "default-case-last": "error",
      "object-shorthand": "error",
      "prefer-template": "error",
      // Text goes in as text, never as markup
      "no-restricted-properties": [
        "error",
        { property: "innerHTML" },
        { property: "outerHTML" },
        { property: "insertAdjacentHTML" },
      ],
      "max-len": ["error", { code: 140 }],
      "max-lines": ["error", 500],
    },
  },
];
