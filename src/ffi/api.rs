//! The server's functions, which are pointers that the server fills in at load.

/// The function behind a pointer of the server's API.
///
/// [`missing`] has shown at load that every function used through this macro is there; the panic for
/// one that is not is caught by the guard around every callback.
macro_rules! api {
    ($name:ident) => {
        match optional_api!($name) {
            Some(function) => function,
            None => panic!(concat!(stringify!($name), " is not in this server")),
        }
    };
}

/// The function behind a pointer that not every supported server has.
macro_rules! optional_api {
    ($name:ident) => {{
        // Also used inside the `unsafe` block of a call.
        #[allow(unused_unsafe)]
        // SAFETY: the pointers are written once, by the initialisation at load, before any callback runs.
        let function = unsafe { redis_module::raw::$name };
        function
    }};
}

macro_rules! first_missing {
    ($($name:ident)*) => {
        $(if optional_api!($name).is_none() {
            return Some(stringify!($name));
        })*
    };
}

pub(super) use {api, optional_api};

/// The first function that rlock needs and this server lacks. Redis 7.0.5 has them all.
pub(super) fn missing() -> Option<&'static str> {
    first_missing! {
        RedisModule_Alloc RedisModule_Calloc RedisModule_Realloc
        RedisModule_AvoidReplicaTraffic RedisModule_BlockClient RedisModule_Call RedisModule_CallReplyArrayElement RedisModule_CallReplyInteger RedisModule_CallReplyLength
        RedisModule_CallReplyStringPtr RedisModule_ListGet RedisModule_CallReplyType RedisModule_ACLAddLogEntry
        RedisModule_ACLCheckChannelPermissions RedisModule_ACLCheckCommandPermissions RedisModule_FreeModuleUser RedisModule_GetClientUserNameById
        RedisModule_GetCurrentUserName RedisModule_GetModuleUserFromUserName RedisModule_GetClientInfoById
        RedisModule_CreateTimer
        RedisModule_FreeCallReply RedisModule_GetBlockedClientPrivateData RedisModule_GetClientId
        RedisModule_GetSelectedDb RedisModule_MonotonicMicroseconds RedisModule_SelectDb
        RedisModule_SetDisconnectCallback RedisModule_StopTimer RedisModule_SubscribeToKeyspaceEvents
        RedisModule_UnblockClient
        RedisModule_CloseKey RedisModule_CreateCommand RedisModule_CreateString
        RedisModule_CreateStringFromLongLong RedisModule_DeleteKey RedisModule_FreeServerInfo
        RedisModule_FreeString RedisModule_GetAbsExpire RedisModule_GetCommand RedisModule_GetCommandKeys
        RedisModule_GetContextFlags RedisModule_GetServerInfo RedisModule_HashGet RedisModule_HashSet
        RedisModule_InfoAddFieldCString RedisModule_InfoAddFieldULongLong RedisModule_InfoAddSection
        RedisModule_KeyType RedisModule_LoadConfigs RedisModule_Log RedisModule_Milliseconds
        RedisModule_NotifyKeyspaceEvent RedisModule_OpenKey RedisModule_PublishMessage
        RedisModule_PublishMessageShard RedisModule_RegisterBoolConfig RedisModule_RegisterNumericConfig RedisModule_RegisterInfoFunc
        RedisModule_DbSize RedisModule_Free RedisModule_Replicate RedisModule_ReplicateVerbatim RedisModule_ReplyWithArray RedisModule_ReplyWithError
        RedisModule_ReplyWithLongLong RedisModule_ReplyWithMap RedisModule_ReplyWithNull
        RedisModule_ReplyWithNullArray RedisModule_ReplyWithSimpleString RedisModule_ReplyWithStringBuffer RedisModule_ScanCursorCreate
        RedisModule_ScanCursorDestroy RedisModule_ScanKey RedisModule_ServerInfoGetFieldC
        RedisModule_ServerInfoGetFieldUnsigned RedisModule_SetAbsExpire RedisModule_SetCommandInfo
        RedisModule_SetModuleOptions RedisModule_SignalModifiedKey
        RedisModule_StringDMA RedisModule_StringPtrLen RedisModule_StringSet RedisModule_SubscribeToServerEvent RedisModule_ValueLength
        RedisModule_UnlinkKey RedisModule_WrongArity RedisModule_ZsetAdd RedisModule_ZsetFirstInScoreRange
        RedisModule_ZsetLastInScoreRange RedisModule_ZsetRangeCurrentElement RedisModule_ZsetRangeNext
        RedisModule_ZsetRangePrev RedisModule_ZsetRangeStop RedisModule_ZsetRem RedisModule_ZsetScore
    }
    None
}
