import * as fc from "fast-check";

/** Any value that fast-check can make, with every kind of object it knows. */
export const anyValue = fc.anything({
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withTypedArray: true,
  withSparseArray: true,
  withNullPrototype: true,
  withObjectString: true,
  withBoxedValues: true,
  stringUnit: "binary",
});
