/* SPDX-License-Identifier: MIT
 *
 * The recipe for an image library behind a wall, libpng, as docs/wall.md gives it: an image comes in as its file, and
 * goes out as its size and its pixels, which are written where the program takes them from. */
#include "walled.h"

#include <png.h>

#define SIDE 64
#define RUNS 3000

struct picture {
    uint32_t width;
    uint32_t height;
    unsigned char pixels[]; /* four bytes each */
};

static int decode(const void *file, size_t size, stint_reply *reply)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    if (!png_image_begin_read_from_memory(&image, file, size))
        return stint_fail(EBADMSG, image.message, strlen(image.message) + 1);
    image.format = PNG_FORMAT_RGBA;
    struct picture *picture = stint_reply_reserve(reply, sizeof *picture + PNG_IMAGE_SIZE(image));
    if (picture == NULL)
        return errno; /* EMSGSIZE: the image is too large */
    picture->width = image.width;
    picture->height = image.height;
    if (!png_image_finish_read(&image, NULL, picture->pixels, 0, NULL))
        return stint_fail(EBADMSG, image.message, strlen(image.message) + 1);
    return 0;
}

static int make_image_wall(stint_wall **wall)
{
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.name = "images";
    options.tasks_per_child = 100; /* libpng keeps nothing between two images that could be spoilt */
    options.input_limit = 8 << 20;
    options.reply_limit = 64 << 20; /* an image of 4096 by 4096 */
    return stint_wall_create(&options, wall);
}

/* --- What it is tried with. --- */

struct file {
    unsigned char *bytes;
    size_t size;
};

static struct file make_file(uint32_t side)
{
    png_image image = { .version = PNG_IMAGE_VERSION, .width = side, .height = side, .format = PNG_FORMAT_RGBA };
    size_t room = PNG_IMAGE_SIZE(image);
    unsigned char *pixels = stint_malloc(room);
    struct file file = { .bytes = stint_malloc(room + 4096), .size = room + 4096 };
    for (size_t i = 0; i < room; i++)
        pixels[i] = (unsigned char)(i * i >> 3);
    assert_true(png_image_write_to_memory(&image, file.bytes, &file.size, 0, pixels, 0, NULL));
    stint_free(pixels);
    return file;
}

static stint_outcome run(struct fixture fixture, const void *file, size_t size)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .memory = 128 * MIB, .run_ns = TEN_SECONDS };
    return take_in_time(submit_walled(fixture.pool, fixture.wall, decode, file, size, &options));
}

TEST(an_image_comes_back_as_its_pixels)
{
    struct fixture fixture = begin(make_image_wall);
    struct file file = make_file(SIDE);
    stint_outcome outcome = run(fixture, file.bytes, file.size);
    assert_int_equal(outcome.status, STINT_OK);
    const struct picture *picture = outcome.value;
    assert_int_equal(picture->width, SIDE);
    assert_int_equal(picture->height, SIDE);
    assert_int_equal(outcome.payload_size, sizeof *picture + SIDE * SIDE * 4);
    for (size_t i = 0; i < SIDE * SIDE * 4; i++)
        assert_int_equal(picture->pixels[i], (unsigned char)(i * i >> 3));
    stint_free(outcome.value);
    stint_free(file.bytes);
    end(fixture);
}

/* An image size without pixels: the header's check sum is made right. */
static void claim_size(struct file file, uint32_t side)
{
    for (int i = 0; i < 4; i++)
        file.bytes[16 + i] = file.bytes[20 + i] = (unsigned char)(side >> (24 - 8 * i));
    uint32_t sum = UINT32_MAX;
    for (int i = 12; i < 29; i++) {
        sum ^= file.bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320U : 0);
    }
    for (int i = 0; i < 4; i++)
        file.bytes[29 + i] = (unsigned char)(~sum >> (24 - 8 * i));
}

TEST(an_image_that_claims_to_be_huge_is_an_error)
{
    struct fixture fixture = begin(make_image_wall);
    struct file file = make_file(SIDE);
    claim_size(file, 30000);
    stint_outcome outcome = run(fixture, file.bytes, file.size);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, EMSGSIZE);
    stint_free(file.bytes);
    end(fixture);
}

TEST(whatever_is_in_a_file_the_program_goes_on)
{
    struct fixture fixture = begin(make_image_wall);
    struct file file = make_file(SIDE);
    unsigned char *spoilt = stint_malloc(file.size);
    uint64_t random = 42;
    int failed = 0;
    for (int i = 0; i < RUNS; i++) {
        memcpy(spoilt, file.bytes, file.size);
        for (uint64_t j = 0; j <= random_below(&random, 8); j++)
            spoilt[random_below(&random, file.size)] = (unsigned char)random_below(&random, 256);
        stint_outcome outcome = run(fixture, spoilt, 1 + random_below(&random, file.size));
        assert_true(outcome.status == STINT_OK || outcome.reason == STINT_REASON_FAILED);
        failed += outcome.status != STINT_OK;
        stint_free(outcome.value);
    }
    assert_in_range(failed, RUNS / 2, RUNS);
    assert_int_equal(read_wall(fixture.wall).crashed, 0);
    stint_free(spoilt);
    stint_free(file.bytes);
    end(fixture);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
