/* SPDX-License-Identifier: MIT
 *
 * GLib: its locks are made of futexes by hand, its strings are interned and its types registered for ever, and a
 * refused allocation ends the process. */
#include "library.h"

#include <glib-object.h>
#include <glib.h>

/* --- A type of our own, registered at first use ------------------------------------------------------------------- */

typedef struct {
    GObject object;
    guint total;
} Counter;

typedef struct {
    GObjectClass class;
} CounterClass;

static guint counted_signal;

static void class_init(gpointer class, gpointer unused)
{
    (void)unused;
    counted_signal = g_signal_new("counted", G_TYPE_FROM_CLASS(class), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                  G_TYPE_NONE, 1, G_TYPE_UINT);
}

static GType counter_type(void)
{
    static gsize type;
    if (g_once_init_enter(&type)) {
        GTypeInfo info = { .class_size = sizeof(CounterClass),
                           .class_init = class_init,
                           .instance_size = sizeof(Counter) };
        g_once_init_leave(&type, g_type_register_static(G_TYPE_OBJECT, "WalledCounter", &info, (GTypeFlags)0));
    }
    return type;
}

static void add_counted(Counter *counter, guint count, gpointer factor)
{
    counter->total += count * GPOINTER_TO_UINT(factor);
}

static void emit_signals(uint32_t seed, uint64_t *sum)
{
    Counter *counter = g_object_new(counter_type(), NULL);
    for (guint i = 1; i <= 3; i++)
        g_signal_connect(counter, "counted", G_CALLBACK(add_counted), GUINT_TO_POINTER(i + seed));
    for (guint i = 0; i < 60; i++)
        g_signal_emit(counter, counted_signal, 0, i);
    g_object_set_data_full(G_OBJECT(counter), "note", g_strdup_printf("total %u", counter->total), g_free);
    sum_text(sum, g_object_get_data(G_OBJECT(counter), "note"));
    g_object_unref(counter);
}

/* --- Tables, interned strings, a lock ----------------------------------------------------------------------------- */

static GMutex names_lock;
static GHashTable *names; /* of all that the process has seen, with how often */

static gpointer make_names(gpointer unused)
{
    (void)unused;
    names = g_hash_table_new(g_direct_hash, g_direct_equal);
    return names;
}

static const char *intern(uint32_t seed, guint number)
{
    static GOnce once = G_ONCE_INIT;
    char *text = g_strdup_printf("name %u of %u", number, seed);
    const char *name = g_intern_string(text);
    g_free(text);
    g_once(&once, make_names, NULL);
    g_mutex_lock(&names_lock);
    guint before = GPOINTER_TO_UINT(g_hash_table_lookup(names, name));
    g_hash_table_insert(names, (gpointer)(uintptr_t)name, GUINT_TO_POINTER(before + 1));
    g_mutex_unlock(&names_lock);
    return name;
}

static gint by_text(gconstpointer a, gconstpointer b)
{
    return strcmp(a, b);
}

static void fill_tables(uint32_t seed, uint64_t *sum)
{
    GHashTable *table = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < 200; i++)
        g_hash_table_insert(table, g_strdup_printf("key %u", i * 7 + seed % 5), (gpointer)(uintptr_t)intern(seed, i));
    GList *keys = g_list_sort(g_hash_table_get_keys(table), by_text);
    GString *text = g_string_new(NULL);
    for (const GList *key = keys; key != NULL; key = key->next)
        g_string_append_printf(text, "%s=%s;", (const char *)key->data,
                               (const char *)g_hash_table_lookup(table, key->data));
    char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text->str, (gssize)text->len);
    sum_text(sum, digest);
    g_free(digest);
    g_string_free(text, TRUE);
    g_list_free(keys);
    g_hash_table_destroy(table);
}

/* --- Variants, expressions, a main context ------------------------------------------------------------------------ */

static int parse_variant(uint32_t seed, uint64_t *sum)
{
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE("a{s(uav)}"));
    for (guint i = 0; i < 20; i++) {
        char key[32];
        g_snprintf(key, sizeof key, "entry %u", i);
        GVariant *values[] = { g_variant_new_variant(g_variant_new_uint32(i * seed)),
                               g_variant_new_variant(g_variant_new_string(key)) };
        g_variant_builder_add(&builder, "{s(u@av)}", key, i, g_variant_new_array(G_VARIANT_TYPE_VARIANT, values, 2));
    }
    GVariant *built = g_variant_ref_sink(g_variant_builder_end(&builder));
    char *text = g_variant_print(built, TRUE);
    sum_text(sum, text);
    GVariant *parsed = g_variant_parse(G_VARIANT_TYPE("a{s(uav)}"), text, NULL, NULL, NULL);
    bool same = parsed != NULL && g_variant_equal(built, parsed);
    if (same)
        sum_bytes(sum, g_variant_get_data(parsed), g_variant_get_size(parsed));
    g_free(text);
    g_variant_unref(built);
    if (parsed != NULL)
        g_variant_unref(parsed);
    return same ? 0 : EBADMSG;
}

static int replace(uint32_t seed, uint64_t *sum)
{
    GRegex *expression = g_regex_new("(\\w+) (\\d+)", G_REGEX_OPTIMIZE, (GRegexMatchFlags)0, NULL);
    char *text = g_strdup_printf("alpha %u beta %u gamma 7 delta %u", seed, seed + 1, seed * 3);
    char *replaced =
        expression == NULL ? NULL : g_regex_replace(expression, text, -1, 0, "\\2:\\1", (GRegexMatchFlags)0, NULL);
    int error = replaced == NULL ? EBADMSG : 0;
    if (error == 0)
        sum_text(sum, replaced);
    g_free(replaced);
    g_free(text);
    if (expression != NULL)
        g_regex_unref(expression);
    return error;
}

static gboolean count_down(gpointer left)
{
    return --*(guint *)left > 0;
}

static void run_sources(uint32_t seed, uint64_t *sum)
{
    guint left[12];
    GMainContext *context = g_main_context_new();
    for (guint i = 0; i < G_N_ELEMENTS(left); i++) {
        left[i] = 1 + (seed + i) % 4;
        GSource *source = i % 3 == 0 ? g_timeout_source_new(0) : g_idle_source_new();
        g_source_set_callback(source, count_down, &left[i], NULL);
        g_source_attach(source, context);
        g_source_unref(source);
    }
    guint rounds = 0;
    while (g_main_context_iteration(context, FALSE) && rounds < 10000)
        rounds++;
    g_main_context_unref(context);
    for (guint i = 0; i < G_N_ELEMENTS(left); i++)
        sum_number(sum, left[i]);
}

static int work(uint32_t seed, uint64_t *sum)
{
    fill_tables(seed, sum);
    emit_signals(seed, sum);
    run_sources(seed, sum);
    int error = parse_variant(seed, sum);
    return error != 0 ? error : replace(seed, sum);
}

const struct library library_glib = { "GLib", { NULL }, work };
