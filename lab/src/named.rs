//! Kinds of what is measured, with their names.

/// An enum, each variant with its name in the results, or with that and its name for readers: `ALL`, `name` and `label`.
macro_rules! named {
    ($(#[$doc:meta])* enum $enum:ident { $($(#[$of:meta])* $variant:ident = $name:expr, $label:expr;)+ }) => {
        named! { $(#[$doc])* enum $enum { $($(#[$of])* $variant = $name;)+ } }

        impl $enum {
            /// Its name for readers.
            pub(crate) fn label(self) -> &'static str {
                match self {
                    $($enum::$variant => $label,)+
                }
            }
        }
    };
    ($(#[$doc:meta])* enum $enum:ident { $($(#[$of:meta])* $variant:ident = $name:expr;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $enum {
            $($(#[$of])* $variant,)+
        }

        impl $enum {
            /// All of them, in the order of the tables.
            pub(crate) const ALL: [$enum; [$($enum::$variant),+].len()] = [$($enum::$variant),+];

            /// Its name in the results.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use named;
