/** Why an expired job was cancelled, as its `reason`. */
export const expiredReason = "expired";
