import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "node_modules"] },
  eslint.configs.recommended,
  {
    files: ["src/**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // A call for its effect may be the last thing of a function.
      "@typescript-eslint/no-confusing-void-expression": "off",
      // A driver's, or a caller's own reason, is passed on as it is.
      "@typescript-eslint/only-throw-error": "off",
      "@typescript-eslint/prefer-promise-reject-errors": "off",
      // It takes what two structural types have in common for the type itself.
      "@typescript-eslint/no-unnecessary-type-assertion": "off",
    },
  },
  {
    files: ["**/*.mjs", "**/*.js", "**/*.cjs"],
    languageOptions: {
      globals: Object.fromEntries(
        [
          "process",
          "console",
          "performance",
          "Buffer",
          "setTimeout",
          "clearTimeout",
          "setInterval",
          "clearInterval",
          "AbortController",
          "AbortSignal",
          "globalThis",
          "gc",
          "require",
          "structuredClone",
          "setImmediate",
          "URL",
        ].map((name) => [name, "readonly"]),
      ),
    },
  },
);
