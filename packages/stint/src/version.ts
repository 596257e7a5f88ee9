/** The version of this package. A test keeps it in step with package.json. */
export const version = "0.1.0";
